#include "base/worker_threads.h"

#include <utility>

namespace chorale {

WorkerThreads::WorkerThreads(int threads) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

void WorkerThreads::Add(Job job, const std::string& client) {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  jobs_.Push(client, std::move(job));
  changed_.NotifyOne();
}

int64_t WorkerThreads::waiting() const {
  MutexLock lock(&mutex_);
  return jobs_.size();
}

void WorkerThreads::Stop() {
  FairQueue<Job> dropped;  // destroyed without the lock: a job may own anything
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    std::swap(dropped, jobs_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkerThreads::Run() {
  while (true) {
    Job job;
    {
      MutexLock lock(&mutex_);
      while (jobs_.empty() && !stopped_) changed_.Wait(&mutex_);
      if (stopped_) return;
      job = jobs_.Pop();
    }
    job();
  }
}

}  // namespace chorale
