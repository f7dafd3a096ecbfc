// A queue of jobs that run elsewhere.
#ifndef CHORALE_BASE_WORK_QUEUE_H_
#define CHORALE_BASE_WORK_QUEUE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace chorale {

// Runs one job at a time, or as many as it has threads. Jobs of a client begin in the order in
// which they were added. Clients are served round-robin, so that no client waits for all jobs of
// another.
//
// Thread-safe, except that only one thread may call Stop.
class WorkQueue {
 public:
  using Job = std::function<void()>;

  virtual ~WorkQueue() = default;

  // Discards the job if Stop was called. Jobs without a client share one turn.
  virtual void Add(Job job, const std::string& client) = 0;
  void Add(Job job) { Add(std::move(job), ""); }
  virtual int64_t waiting() const = 0;  // jobs that have not begun
  // Waits for the running jobs, and discards the jobs that have not begun.
  virtual void Stop() = 0;
};

}  // namespace chorale

#endif  // CHORALE_BASE_WORK_QUEUE_H_
