// A request for statistics of joint sample paths.
#ifndef CHORALE_ENGINE_SESSION_SUMMARIZE_SESSION_H_
#define CHORALE_ENGINE_SESSION_SUMMARIZE_SESSION_H_

#include <memory>
#include <optional>

#include "engine/api/call.h"
#include "engine/session/draw_session.h"
#include "engine/session/path_summary.h"

namespace chorale {

// Keeps all values, and reduces them on a summary thread when all paths are drawn. By then, the
// session has returned its buffers.
//
// Thread contract: see Session.
class SummarizeSession : public DrawSession {
 public:
  // REQUIRES: the request has a seed.
  SummarizeSession(CallStart start, const SessionEnvironment* environment,
                   std::shared_ptr<const SummarizeRequest> request, Callback<SummarizeResult> done);

 protected:
  void Start() override;
  void TakeBlock(SampleBlock block) override { summary_->Take(block); }
  void EndDraws() override;
  void CollectTiles(absl::Time now) override;
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  void ComputeNextPart();

  const std::shared_ptr<const SummarizeRequest> request_;
  const Callback<SummarizeResult> done_;
  std::shared_ptr<PathSummary> summary_;  // since Start
  bool drawn_ = false;
  SummarizeResult result_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SUMMARIZE_SESSION_H_
