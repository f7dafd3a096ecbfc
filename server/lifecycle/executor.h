// A few threads that run tasks in the order given.
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

// The server has two: one for calls that wait for the disk, which neither a gRPC reaction nor the
// engine thread may do; and one that encodes and sends replies, so that the engine thread need not.
//
// Thread-safe. The destructor runs the tasks that wait, then joins.
class Executor {
 public:
  using Task = absl::AnyInvocable<void()>;

  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

  // REQUIRES: threads > 0.
  Executor(int threads, int64_t max_waiting);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // False, and the task is dropped, when max_waiting tasks wait already.
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
