// Cancels calls whose clients have stopped reading or writing.
#ifndef CHORALE_SERVER_RPC_CLIENT_WATCHDOG_H_
#define CHORALE_SERVER_RPC_CLIENT_WATCHDOG_H_

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/periodic_task.h"
#include "server/rpc/reactor_registry.h"
#include "server/telemetry/prometheus_metrics.h"

namespace chorale {

// gRPC does not report a stalled client until its connection breaks, which can take many minutes
// behind a proxy. Until then the call occupies buffers, a response or registration memory. A thread
// checks all waiting calls four times per timeout.
//
// Thread contract: one thread owns it.
class ClientWatchdog {
 public:
  // No pointer is owned; all must outlive the watchdog.
  ClientWatchdog(const Clock* clock, ReactorRegistry* registry, PrometheusMetrics* metrics,
                 absl::Duration timeout);

 private:
  void Check() const;

  const Clock* const clock_;
  ReactorRegistry* const registry_;
  PrometheusMetrics* const metrics_;
  const absl::Duration timeout_;
  PeriodicTask task_;  // last: it uses all of the above
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_CLIENT_WATCHDOG_H_
