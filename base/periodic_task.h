// A task that runs again and again on its own thread.
#ifndef CHORALE_BASE_PERIODIC_TASK_H_
#define CHORALE_BASE_PERIODIC_TASK_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace chorale {

// Runs the task when `period` has passed since the construction, and then whenever `period` has
// passed since the end of the last run. The task must not destroy the object.
//
// Thread contract: one thread owns it. The destructor waits for a current run.
class PeriodicTask {
 public:
  // `clock` is not owned.
  PeriodicTask(const Clock* clock, absl::Duration period, std::function<void()> task);
  ~PeriodicTask();
  PeriodicTask(const PeriodicTask&) = delete;
  PeriodicTask& operator=(const PeriodicTask&) = delete;

 private:
  void Run();
  // Returns false if the object is destroyed meanwhile.
  bool WaitForPeriod();

  const Clock* const clock_;
  const absl::Duration period_;
  const std::function<void()> task_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace chorale

#endif  // CHORALE_BASE_PERIODIC_TASK_H_
