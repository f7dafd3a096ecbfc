// Polls the health of a part of the engine.
#ifndef CHORALE_SERVER_PROCESS_HEALTH_WATCH_H_
#define CHORALE_SERVER_PROCESS_HEALTH_WATCH_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// The engine does not report that its backend failed or that its store is lost, so a thread polls
// it. Each part has its own watch: a disk that hangs does not delay the detection of a failed
// backend.
//
// Thread contract: one thread owns it.
class HealthWatch {
 public:
  // Calls `changed` on the watch's thread whenever the result of `ask` changes from Ok to an error
  // or back; it is Ok at first. `changed` must not destroy the watch.
  HealthWatch(std::function<absl::Status()> ask, absl::Duration period,
              std::function<void(const absl::Status&)> changed);
  ~HealthWatch();
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

 private:
  void Watch();

  const std::function<absl::Status()> ask_;
  const absl::Duration period_;
  const std::function<void(const absl::Status&)> changed_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_PROCESS_HEALTH_WATCH_H_
