// A thread pool that runs the tasks of clients in turn.
#ifndef CHORALE_SERVER_PROCESS_EXECUTOR_H_
#define CHORALE_SERVER_PROCESS_EXECUTOR_H_

#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/fair_queue.h"
#include "base/mutex.h"

namespace chorale {

// The server has three executors: for calls that block on the disk, which gRPC callbacks and the
// engine thread must not do; for decoding large requests, which would delay small requests; and for
// encoding and sending responses, to relieve the engine thread.
//
// Clients take turns, and the tasks of a client run in their order.
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

  // Returns false and drops the task if the client has as many queued tasks as there are free
  // slots: a single client gets half of the slots, and each of n clients less than 1/(n + 1), so
  // that a slot is always free for a client without tasks.
  [[nodiscard]] bool TryRun(const std::string& client, Task task);

  int64_t waiting() const;

 private:
  void Work();

  const int64_t max_waiting_;
  mutable Mutex mutex_;
  CondVar changed_;
  FairQueue<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace chorale

#endif  // CHORALE_SERVER_PROCESS_EXECUTOR_H_
