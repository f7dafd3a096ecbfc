// Polls the engine's health.
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

// A failed backend stays failed until the process restarts. The engine does not report a failure by
// itself, so a thread polls Engine::Health().
//
// Thread contract: one thread owns it.
class HealthWatch {
 public:
  // Calls `failed` once, on the watch's thread, when the engine becomes unhealthy; `failed` must
  // not destroy the watch. The engine is not owned and must outlive the watch.
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
