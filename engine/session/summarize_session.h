// A request for statistics of joint sample paths.
#ifndef CHORALE_ENGINE_SESSION_SUMMARIZE_SESSION_H_
#define CHORALE_ENGINE_SESSION_SUMMARIZE_SESSION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/api/call.h"
#include "engine/session/conditional_estimates.h"
#include "engine/session/draw_session.h"
#include "engine/session/path_summary.h"

namespace chorale {

// Keeps all values, and reduces them on a summary thread when all paths are drawn. By then, the
// session has returned its buffers. Mixtures are reduced while further values are drawn.
//
// Thread contract: see Session.
class SummarizeSession : public DrawSession {
 public:
  // REQUIRES: the request has a seed.
  SummarizeSession(CallStart start, const SessionEnvironment* environment,
                   std::shared_ptr<const SummarizeRequest> request, Callback<SummarizeResult> done);

 protected:
  void Start() override;
  void AppendTiles(std::vector<Slice>* slices) override;
  bool TakesMixtures() const override { return estimates_ != nullptr; }
  void TakeMixtures(const DrawSlot& slot) override;
  void TakeBlock(SampleBlock block) override { summary_->Take(block); }
  void EndDraws() override;
  void CollectTiles(absl::Time now) override;
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  void AddBatch(size_t lane, MixtureBatch batch);
  void TakeNextBatch(size_t lane);
  // Starts the next stage, once all values and mixtures are taken.
  void StartStage();

  const std::shared_ptr<const SummarizeRequest> request_;
  const Callback<SummarizeResult> done_;
  std::shared_ptr<ConditionalEstimates> estimates_;  // since Start; null: there are none
  std::shared_ptr<PathSummary> summary_;             // since Start
  // Batches that `estimates_` has not taken. Each lane has the mixtures of other paths, so that
  // those of a path stay in their order: the first batch of a lane is with a summary thread.
  static constexpr size_t kLanes = 4;
  std::array<std::deque<std::shared_ptr<const MixtureBatch>>, kLanes> lanes_;
  size_t batches_ = 0;  // of all lanes
  bool drawn_ = false;
  int64_t stage_ = 0;
  int64_t parts_left_ = 0;  // of the stage
  SummarizeResult result_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SUMMARIZE_SESSION_H_
