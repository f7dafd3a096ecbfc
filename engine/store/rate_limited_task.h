// A task that is asked for often and run seldom.
#ifndef CHORALE_ENGINE_STORE_RATE_LIMITED_TASK_H_
#define CHORALE_ENGINE_STORE_RATE_LIMITED_TASK_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// Runs the task on a thread of its own after it was asked for: at once, but no sooner than `period`
// after the last run began. What is asked for meanwhile is one run.
//
// Thread-safe; the destructor waits for a run, and drops what was asked for.
class RateLimitedTask {
 public:
  // `task` returns whether it is done; if not, it runs again.
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
