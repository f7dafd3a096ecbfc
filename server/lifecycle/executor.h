// A thread pool that runs tasks in FIFO order.
#ifndef CHORALE_SERVER_LIFECYCLE_EXECUTOR_H_
#define CHORALE_SERVER_LIFECYCLE_EXECUTOR_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace chorale {

// The server has two: one for calls that block on the disk, which gRPC callbacks and the engine
// thread must not do; and one that encodes and sends replies, to unburden the engine thread.
//
// Thread-safe. The destructor runs the queued tasks, then joins the threads.
class Executor {
 public:
  using Task = absl::AnyInvocable<void()>;

  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

  // REQUIRES: threads > 0.
  Executor(int threads, int64_t max_waiting);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Returns false and drops the task if max_waiting tasks are queued already.
  [[nodiscard]] bool TryRun(Task task);

  int64_t waiting() const;

 private:
  void Work();

  const int64_t max_waiting_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_EXECUTOR_H_
