#include "engine/backend/cpu/thread_pool.h"

#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/require.h"

namespace chorale::cpu {

absl::StatusOr<std::unique_ptr<ThreadPool>> ThreadPool::Create(int threads) {
  Require(threads >= 1, "a thread pool has at least one thread");
  std::unique_ptr<ThreadPool> pool(new ThreadPool);
  pool->workers_.reserve(threads - 1);
  try {
    for (int thread = 1; thread < threads; ++thread) {
      pool->workers_.emplace_back([pool = pool.get(), thread] { pool->WorkerLoop(thread); });
    }
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start ", threads, " threads: ", error.what()));
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  work_.NotifyAll();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t tasks, Task run) {
  if (workers_.empty() || tasks <= 1) {
    for (int64_t task = 0; task < tasks; ++task) run(task, 0);
    return;
  }
  {
    MutexLock lock(&mutex_);
    next_task_.store(0, std::memory_order_relaxed);
    run_ = &run;
    tasks_ = tasks;
    ++batch_;
  }
  work_.NotifyAll();
  TakeTasks(run, tasks, 0);
  MutexLock lock(&mutex_);
  run_ = nullptr;
  while (joined_ > 0) finished_.Wait(&mutex_);
}

void ThreadPool::TakeTasks(Task run, int64_t tasks, int thread) {
  for (;;) {
    const int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks) return;
    run(task, thread);
  }
}

void ThreadPool::WorkerLoop(int thread) {
  uint64_t last_batch = 0;
  MutexLock lock(&mutex_);
  for (;;) {
    while (!stopping_ && (run_ == nullptr || batch_ == last_batch)) work_.Wait(&mutex_);
    if (stopping_) return;
    last_batch = batch_;
    const Task run = *run_;
    const int64_t tasks = tasks_;
    ++joined_;
    mutex_.Unlock();
    TakeTasks(run, tasks, thread);
    mutex_.Lock();
    if (--joined_ == 0) finished_.NotifyOne();
  }
}

}  // namespace chorale::cpu
