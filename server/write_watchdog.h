// Cancels calls whose client has stopped reading.
#ifndef CHORALE_SERVER_WRITE_WATCHDOG_H_
#define CHORALE_SERVER_WRITE_WATCHDOG_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "engine/mutex.h"
#include "server/prometheus_metrics.h"
#include "server/reactor_registry.h"

namespace chorale {

// gRPC reports a write to a client that neither reads nor goes away only when its connection dies,
// which can take many minutes behind a proxy. A thread looks at all writes a few times per timeout.
class WriteWatchdog {
 public:
  // Neither pointer is owned; both outlive the watchdog.
  WriteWatchdog(ReactorRegistry* registry, PrometheusMetrics* metrics, absl::Duration timeout);
  ~WriteWatchdog();
  WriteWatchdog(const WriteWatchdog&) = delete;
  WriteWatchdog& operator=(const WriteWatchdog&) = delete;

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

#endif  // CHORALE_SERVER_WRITE_WATCHDOG_H_
