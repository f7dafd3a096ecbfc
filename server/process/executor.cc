#include "server/process/executor.h"

#include <utility>

namespace chorale {

Executor::Executor(int threads, int64_t max_waiting) : max_waiting_(max_waiting) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

Executor::~Executor() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

bool Executor::TryRun(const std::string& client, Task task) {
  {
    MutexLock lock(&mutex_);
    if (tasks_.size_of(client) >= max_waiting_ - tasks_.size()) return false;
    tasks_.Push(client, std::move(task));
  }
  changed_.NotifyOne();
  return true;
}

int64_t Executor::waiting() const {
  MutexLock lock(&mutex_);
  return tasks_.size();
}

void Executor::Work() {
  while (true) {
    Task task;
    {
      MutexLock lock(&mutex_);
      while (tasks_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (tasks_.empty()) return;
      task = tasks_.Pop();
    }
    std::move(task)();
  }
}

}  // namespace chorale
