// Cancels calls whose clients have stopped reading or writing.
#ifndef CHORALE_SERVER_RPC_CLIENT_WATCHDOG_H_
#define CHORALE_SERVER_RPC_CLIENT_WATCHDOG_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
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
  // Neither pointer is owned; both must outlive the watchdog.
  ClientWatchdog(ReactorRegistry* registry, PrometheusMetrics* metrics, absl::Duration timeout);
  ~ClientWatchdog();
  ClientWatchdog(const ClientWatchdog&) = delete;
  ClientWatchdog& operator=(const ClientWatchdog&) = delete;

 private:
  void Watch();

  ReactorRegistry* const registry_;
  PrometheusMetrics* const metrics_;
  const absl::Duration timeout_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_CLIENT_WATCHDOG_H_
