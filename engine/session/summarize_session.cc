#include "engine/session/summarize_session.h"

#include <utility>

namespace chorale {

SummarizeSession::SummarizeSession(CallStart start, const SessionEnvironment* environment,
                                   std::shared_ptr<const SummarizeRequest> request,
                                   Callback<SummarizeResult> done)
    : DrawSession(std::move(start), environment, request),
      request_(std::move(request)),
      done_(std::move(done)) {}

void SummarizeSession::Start() {
  summary_ = std::make_shared<PathSummary>(request_);
  DrawSession::Start();
}

void SummarizeSession::CollectTiles(absl::Time now) {
  if (!drawn_) DrawSession::CollectTiles(now);
}

void SummarizeSession::EndDraws() {
  drawn_ = true;
  ReleaseResources();  // parts do not use them
  ComputeNextPart();
}

void SummarizeSession::ComputeNextPart() {
  RunOnSummaryThread(/*is_short=*/false,
                     [this, summary = summary_]() -> SessionEnvironment::Continuation {
                       const bool more = summary->ComputeNextPart();
                       return [this, more] {
                         if (more) {
                           ComputeNextPart();
                           return;
                         }
                         result_ = summary_->TakeResult();
                         Complete();
                       };
                     });
}

void SummarizeSession::Deliver(absl::Status status, absl::Time now) {
  result_.seed = *request_->seed;
  result_.known_log_densities = TakeKnownLogDensities();
  Answer(done_, std::move(status), std::move(result_), now);
}

}  // namespace chorale
