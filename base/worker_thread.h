// A thread for work that must not run on the engine thread.
#ifndef CHORALE_BASE_WORKER_THREAD_H_
#define CHORALE_BASE_WORKER_THREAD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/fair_queue.h"
#include "base/mutex.h"

namespace chorale {

// Runs one job at a time. Jobs of a client run in the order in which they were added. Clients are
// served round-robin, so that no client waits for all jobs of another.
//
// Thread-safe, except that only one thread may call Stop.
class WorkerThread {
 public:
  using Job = std::function<void()>;

  WorkerThread() : thread_([this] { Run(); }) {}
  ~WorkerThread() { Stop(); }
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // Discards the job if Stop was called. Jobs without a client share one turn.
  void Add(Job job, const std::string& client = "");
  int64_t waiting() const;  // jobs that have not begun
  // Waits for the running job, and discards the jobs that have not begun.
  void Stop();

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
