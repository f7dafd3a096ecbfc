#include "server/rpc/client_watchdog.h"

#include <chrono>

#include "server/telemetry/logging.h"

namespace chorale {

ClientWatchdog::ClientWatchdog(ReactorRegistry* registry, PrometheusMetrics* metrics,
                               absl::Duration timeout)
    : registry_(registry), metrics_(metrics), timeout_(timeout), thread_([this] { Watch(); }) {}

ClientWatchdog::~ClientWatchdog() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.NotifyAll();
  thread_.join();
}

void ClientWatchdog::Watch() {
  const auto period = absl::ToChronoNanoseconds(timeout_ / 4);
  auto next = std::chrono::steady_clock::now() + period;
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && std::chrono::steady_clock::now() < next) {
        stopped_.WaitUntil(&mutex_, next);
      }
      if (stopping_) return;
    }
    next = std::chrono::steady_clock::now() + period;
    const int64_t cancelled = registry_->CancelClientWaitsStartedBefore(
        std::chrono::steady_clock::now() - absl::ToChronoNanoseconds(timeout_));
    if (cancelled > 0) {
      metrics_->StalledStreams(cancelled);
      LogEvent(spdlog::level::warn, "stalled_streams_cancelled", {{"count", cancelled}});
    }
  }
}

}  // namespace chorale
