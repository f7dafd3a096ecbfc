// Runs the part of a unary call that blocks on the disk.
#ifndef CHORALE_SERVER_RPC_RUN_BLOCKING_H_
#define CHORALE_SERVER_RPC_RUN_BLOCKING_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/error_details.h"
#include "server/process/executor.h"
#include "server/rpc/service_environment.h"
#include "server/rpc/unary_reactor.h"

namespace chorale {

// Runs `task` on an executor; it returns the response, or the status to finish with.
// ResourceExhausted, with the reason QUEUE_FULL, if too many tasks wait.
template <typename Task>
absl::Status RunBlocking(const ServiceEnvironment& environment, Executor* executor,
                         std::shared_ptr<UnaryReactor> reactor, Task task) {
  const bool runs =
      executor->TryRun(reactor->live().client(), [reactor, task = std::move(task)]() mutable {
        if (reactor->cancelled()) {
          reactor->Finish(absl::CancelledError("the client disconnected"));
          return;
        }
        const auto response = task();
        if (response.ok()) {
          reactor->FinishWith(*response);
        } else {
          reactor->Finish(response.status());
        }
      });
  if (runs) return absl::OkStatus();
  environment.metrics->Rejected("blocking_queue_full");
  return ExhaustedRetryAfter(ErrorReason::kQueueFull, "too many calls wait for the disk",
                             environment.retry_delay);
}

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_RUN_BLOCKING_H_
