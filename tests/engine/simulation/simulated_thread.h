// A thread of a simulation.
#ifndef CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_THREAD_H_
#define CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_THREAD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/fair_queue.h"
#include "base/work_queue.h"
#include "tests/engine/simulation/virtual_clock.h"

namespace chorale::testing {

// Returns a time that is drawn anew with each call.
using Delay = std::function<absl::Duration()>;

// Runs jobs as events of a clock: each takes `delay`, and has its effects at the end. Not
// thread-safe.
class SimulatedThread : public WorkQueue {
 public:
  // `clock` is not owned.
  SimulatedThread(VirtualClock* clock, Delay delay) : clock_(clock), delay_(std::move(delay)) {}

  using WorkQueue::Add;
  void Add(Job job, const std::string& client) override {
    if (stopped_) return;
    jobs_.Push(client, std::move(job));
    if (!busy_) Begin();
  }
  int64_t waiting() const override { return jobs_.size(); }
  bool runs_job() const { return runs_job_; }  // now
  void Stop() override {
    stopped_ = true;
    jobs_ = {};
  }

 private:
  void Begin() {
    busy_ = true;
    clock_->After(delay_(), [this, job = jobs_.Pop()] {
      if (stopped_) return;
      runs_job_ = true;
      job();
      runs_job_ = false;
      busy_ = false;
      if (!jobs_.empty()) Begin();
    });
  }

  VirtualClock* const clock_;
  const Delay delay_;
  FairQueue<Job> jobs_;
  bool busy_ = false;
  bool runs_job_ = false;
  bool stopped_ = false;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_THREAD_H_
