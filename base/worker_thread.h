// A thread for work that must not run on the engine thread.
#ifndef CHORALE_BASE_WORKER_THREAD_H_
#define CHORALE_BASE_WORKER_THREAD_H_

#include <cstdint>
#include <string>
#include <thread>

#include "base/fair_queue.h"
#include "base/mutex.h"
#include "base/work_queue.h"

namespace chorale {

// Runs the jobs of a queue on a thread of its own.
class WorkerThread : public WorkQueue {
 public:
  WorkerThread() : thread_([this] { Run(); }) {}
  ~WorkerThread() override { WorkerThread::Stop(); }
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

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
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace chorale

#endif  // CHORALE_BASE_WORKER_THREAD_H_
