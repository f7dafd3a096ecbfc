#include "base/worker_thread.h"

#include <utility>

namespace chorale {

void WorkerThread::Add(Job job) {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  jobs_.push_back(std::move(job));
  changed_.NotifyOne();
}

int64_t WorkerThread::waiting() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(jobs_.size());
}

void WorkerThread::Stop() {
  std::deque<Job> dropped;  // destroyed without the lock: a job may own anything
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    dropped.swap(jobs_);
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
}

void WorkerThread::Run() {
  while (true) {
    Job job;
    {
      MutexLock lock(&mutex_);
      while (jobs_.empty() && !stopped_) changed_.Wait(&mutex_);
      if (stopped_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace chorale
