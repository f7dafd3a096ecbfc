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

// Keeps all values, and reduces them on summary threads when all paths are drawn. By then, the
// session has returned its buffers. Mixtures are reduced while further values are drawn.
//
// With target errors, the paths are drawn in rounds, and reduced after each of them. The session
// ends with the first round whose errors meet their targets.
//
// Thread contract: see Session.
class SummarizeSession : public DrawSession {
 public:
  // REQUIRES: the request has a seed.
  SummarizeSession(CallStart start, const SessionEnvironment* environment,
                   std::shared_ptr<const SummarizeRequest> request, Callback<SummarizeResult> done);

 protected:
  std::vector<int64_t> Rounds() const override { return rounds_; }
  void Start() override;
  void AppendTiles(std::vector<Slice>* slices) override;
  int64_t FirstMixture(int64_t positions) const override {
    return estimates_ != nullptr ? 0 : TileSpec::kNoMixtures;
  }
  void TakeMixtures(const DrawSlot& slot) override;
  void TakeBlock(SampleBlock block) override { summary_->Take(block); }
  void EndDraws() override;
  void CollectTiles(absl::Time now) override;
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  bool IsLastRound() const { return round_ + 1 == rounds_.size(); }
  // Allows the paths of the round; the tiles are started by the caller.
  void BeginRound();
  void AddBatch(size_t lane, MixtureBatch batch);
  void TakeNextBatch(size_t lane);
  // Starts the next stage, once all values and mixtures of the round are taken.
  void StartStage();
  // Ends the session, or starts the next round.
  void EndRound();

  const std::shared_ptr<const SummarizeRequest> request_;
  const Callback<SummarizeResult> done_;
  const std::vector<int64_t> rounds_;  // Checkpoints
  size_t round_ = 0;
  std::shared_ptr<ConditionalEstimates> estimates_;  // since Start; null: there are none
  std::shared_ptr<PathSummary> summary_;             // since Start
  // Batches that `estimates_` has not taken. Each lane has the mixtures of other paths, so that
  // those of a path stay in their order: the first batch of a lane is with a summary thread.
  static constexpr size_t kLanes = 4;
  std::array<std::deque<std::shared_ptr<const MixtureBatch>>, kLanes> lanes_;
  size_t batches_ = 0;  // of all lanes
  bool drawn_ = false;  // all paths of the round
  int64_t stage_ = 0;
  int64_t parts_left_ = 0;  // of the stage
  SummarizeResult result_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SUMMARIZE_SESSION_H_
