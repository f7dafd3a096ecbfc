#include "server/rpc/client_watchdog.h"

#include "server/telemetry/logging.h"

namespace chorale {

ClientWatchdog::ClientWatchdog(const Clock* clock, ReactorRegistry* registry,
                               PrometheusMetrics* metrics, absl::Duration timeout)
    : clock_(clock),
      registry_(registry),
      metrics_(metrics),
      timeout_(timeout),
      task_(clock, timeout / 4, [this] { Check(); }) {}

void ClientWatchdog::Check() const {
  const int64_t cancelled = registry_->CancelClientWaitsStartedBefore(clock_->Now() - timeout_);
  if (cancelled == 0) return;
  metrics_->StalledStreams(cancelled);
  LogEvent(spdlog::level::warn, "stalled_streams_cancelled", {{"count", cancelled}});
}

}  // namespace chorale
