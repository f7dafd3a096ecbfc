// Threads for work that must not run on the engine thread.
#ifndef CHORALE_BASE_WORKER_THREADS_H_
#define CHORALE_BASE_WORKER_THREADS_H_

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/fair_queue.h"
#include "base/mutex.h"
#include "base/work_queue.h"

namespace chorale {

// Runs the jobs of a queue on threads of its own, one by default.
class WorkerThreads : public WorkQueue {
 public:
  // REQUIRES: threads >= 1.
  explicit WorkerThreads(int threads = 1);
  ~WorkerThreads() override { WorkerThreads::Stop(); }
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  using WorkQueue::Add;
  void Add(Job job, const std::string& client) override;
  int64_t waiting() const override;
  void Stop() override;

 private:
  void Run();

  mutable Mutex mutex_;
  CondVar changed_;
  FairQueue<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace chorale

#endif  // CHORALE_BASE_WORKER_THREADS_H_
