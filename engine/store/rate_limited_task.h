// A task that is requested often and runs at a limited rate.
#ifndef CHORALE_ENGINE_STORE_RATE_LIMITED_TASK_H_
#define CHORALE_ENGINE_STORE_RATE_LIMITED_TASK_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// Runs the task on its own thread after a call of Ask: at once, but not sooner than `period` after
// the start of the last run. Calls of Ask before a run are combined.
//
// Thread-safe. The destructor waits for a current run, and discards requests.
class RateLimitedTask {
 public:
  // `task` returns whether it is complete; if not, it runs again.
  RateLimitedTask(absl::Duration period, std::function<bool()> task);
  ~RateLimitedTask();
  RateLimitedTask(const RateLimitedTask&) = delete;
  RateLimitedTask& operator=(const RateLimitedTask&) = delete;

  void Ask();

 private:
  void Run();

  const absl::Duration period_;
  const std::function<bool()> task_;
  Mutex mutex_;
  CondVar changed_;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_RATE_LIMITED_TASK_H_
