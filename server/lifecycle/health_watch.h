// Looks whether the backend still works.
#ifndef CHORALE_SERVER_LIFECYCLE_HEALTH_WATCH_H_
#define CHORALE_SERVER_LIFECYCLE_HEALTH_WATCH_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "engine/engine.h"

namespace chorale {

// A backend that has failed stays so until the process is started anew. Nothing tells of that but
// the engine's health, which a thread asks for once a period.
//
// Thread contract: one thread owns it.
class HealthWatch {
 public:
  // Calls `failed` on the watch's thread, once, when the engine is no longer well; it must not
  // destroy the watch. The engine is not owned and outlives the watch.
  HealthWatch(const Engine* engine, absl::Duration period,
              std::function<void(const absl::Status&)> failed);
  ~HealthWatch();
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

 private:
  void Watch();

  const Engine* const engine_;
  const absl::Duration period_;
  const std::function<void(const absl::Status&)> failed_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_HEALTH_WATCH_H_
