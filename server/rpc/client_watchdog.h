// Cancels calls whose client has stopped reading or writing.
#ifndef CHORALE_SERVER_RPC_CLIENT_WATCHDOG_H_
#define CHORALE_SERVER_RPC_CLIENT_WATCHDOG_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/rpc/reactor_registry.h"
#include "server/telemetry/prometheus_metrics.h"

namespace chorale {

// gRPC tells of a client that neither goes on nor goes away only when its connection dies, which
// can take many minutes behind a proxy; until then its call holds on to paths, to an answer or to
// memory for a registration. A thread looks at all waits a few times per timeout.
//
// Thread contract: one thread owns it.
class ClientWatchdog {
 public:
  // Neither pointer is owned; both outlive the watchdog.
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
