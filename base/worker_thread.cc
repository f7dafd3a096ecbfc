#include "base/worker_thread.h"

#include <utility>

namespace chorale {

void WorkerThread::Add(Job job, const std::string& client) {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  jobs_.Push(client, std::move(job));
  changed_.NotifyOne();
}

int64_t WorkerThread::waiting() const {
  MutexLock lock(&mutex_);
  return jobs_.size();
}

void WorkerThread::Stop() {
  FairQueue<Job> dropped;  // destroyed without the lock: a job may own anything
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    std::swap(dropped, jobs_);
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
      job = jobs_.Pop();
    }
    job();
  }
}

}  // namespace chorale
