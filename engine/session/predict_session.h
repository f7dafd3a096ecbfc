// A request for marginal predictions.
#ifndef CHORALE_ENGINE_SESSION_PREDICT_SESSION_H_
#define CHORALE_ENGINE_SESSION_PREDICT_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/api/call.h"
#include "engine/session/mixture_results.h"
#include "engine/session/query_groups.h"
#include "engine/session/tiled_session.h"

namespace chorale {

struct PredictSlot : TileSlot<Work> {
  const PredictWork* marginal = nullptr;     // `work`, without known values
  const DensityWork* conditional = nullptr;  // `work`, with known values
};

// Each query row whose value is not known is a path. Without known values, the tiles are
// PredictWork. Otherwise they are DensityWork, and the path of a row in group g has N_g + 1
// positions, the last of which is the predicted row. Rows with equal N_g follow each other.
//
// A tile that is done is summarised on the summary threads, because each quantile is the root of a
// function, in parts of about a millisecond, so that requests take turns. A few tiles are passed to
// these threads at a time; the other tiles that are done stay in their slots.
//
// Thread contract: see Session.
class PredictSession : public TiledSession<PredictSlot> {
 public:
  PredictSession(CallStart start, const SessionEnvironment* environment,
                 std::shared_ptr<const PredictRequest> request, Callback<PredictResult> done);

 protected:
  std::vector<EqualPaths> PlanPaths() override;
  void Start() override;
  void StartTile(PredictSlot* slot, PoolRange buffer) override;
  void CollectTiles(absl::Time now) override;
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  void StartMarginalTile(PredictSlot* slot, PoolRange buffer);
  void StartConditionalTile(PredictSlot* slot, PoolRange buffer);
  void TakeKnownLogDensities(const PredictSlot& slot);
  void HandOver();
  void Summarise(const PredictSlot& slot);
  void SummariseOnThread(bool is_short, int64_t first_path,
                         std::shared_ptr<const RawMixtures> mixtures);
  bool SummaryIsShort(int64_t rows) const;
  void Store(int64_t first_path, const PredictResult& summary);

  const std::shared_ptr<const PredictRequest> request_;
  const Callback<PredictResult> done_;
  std::optional<QueryGroups> groups_;  // since PlanPaths
  std::vector<int32_t> predicted_;     // [U]: the row of each path; since PlanPaths
  std::shared_ptr<const std::vector<kernels::QuantileTarget>> quantiles_;  // since Start
  int64_t awaiting_summary_ = 0;  // rows passed to the summary threads
  int64_t summarised_rows_ = 0;
  PredictResult result_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_PREDICT_SESSION_H_
