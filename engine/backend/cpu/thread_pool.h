// A fixed number of threads that run one batch of independent tasks at a time.
#ifndef CHORALE_ENGINE_BACKEND_CPU_THREAD_POOL_H_
#define CHORALE_ENGINE_BACKEND_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace chorale::cpu {

// Thread contract: one thread constructs, runs and destroys the pool. It is thread 0 of Run.
class ThreadPool {
 public:
  using Task = absl::FunctionRef<void(int64_t task, int thread)>;

  // Starts threads - 1 threads in addition to the caller's. Returns ResourceExhausted if the
  // operating system cannot start a thread. REQUIRES: threads >= 1.
  static absl::StatusOr<std::unique_ptr<ThreadPool>> Create(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls run(task, thread) once for every task in 0..tasks-1, with at most one call at a time per
  // thread in 0..threads()-1, and returns when all calls have returned. Allocates nothing.
  void Run(int64_t tasks, Task run);

 private:
  ThreadPool() = default;
  void WorkerLoop(int thread);
  void TakeTasks(Task run, int64_t tasks, int thread);

  Mutex mutex_;
  CondVar work_;      // a batch was opened, or stopping_ was set
  CondVar finished_;  // joined_ became zero
  // The open batch, or null. A worker that wakes up too late finds no batch and sleeps again, so
  // that no batch waits for it.
  const Task* run_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int64_t tasks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t batch_ ABSL_GUARDED_BY(mutex_) = 0;
  int joined_ ABSL_GUARDED_BY(mutex_) = 0;  // workers inside the open batch
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<int64_t> next_task_{0};
  std::vector<std::thread> workers_;
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_THREAD_POOL_H_
