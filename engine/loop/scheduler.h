// Which pieces of work run in the next tick, and for how many steps. No threads, no clock.
#ifndef CHORALE_ENGINE_LOOP_SCHEDULER_H_
#define CHORALE_ENGINE_LOOP_SCHEDULER_H_

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace chorale {

// Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) between flows, one per session and
// one per encoding. A flow's virtual time is the work it was given, in floating-point operations;
// the flow with the least is served first. The system's virtual time is that of the flow served
// next. A flow that arrives, or returns after it had nothing to run, starts there: it is served at
// once, and cannot claim time that it did not use.
//
// Thread contract: not thread-safe; the engine thread owns every instance.
class Scheduler {
 public:
  struct Candidate {
    uint64_t flow = 0;
    double step_flops = 0;  // of the next step; positive
    int64_t max_steps = 1;  // that it can use now; at least 1
  };
  struct Pick {
    size_t candidate = 0;  // index into the candidates
    int64_t steps = 1;     // 1 to its max_steps
  };

  struct Limits {
    int64_t max_slices = 1;                                    // positive
    double budget = 0;                                         // operations of all slices together
    double longest = std::numeric_limits<double>::infinity();  // operations of one slice
  };

  // Picks up to max_slices candidates, and steps such that all of them together take about
  // `budget` operations: equal shares for the flows picked, none longer than `longest`, but at
  // least one step each. Candidates of one flow are neighbours, the most urgent first.
  std::vector<Pick> PickSlices(absl::Span<const Candidate> candidates, const Limits& limits);

  // Charges a flow for work that was done.
  void Charge(uint64_t flow, double flops);
  // Removes a flow.
  void Remove(uint64_t flow) { flows_.erase(flow); }

 private:
  struct Flow {
    double virtual_time = 0;
    uint64_t last_round = 0;  // the last round in which it had something to run
    int64_t picks = 0;        // in that round
  };
  struct Contender;

  std::vector<Contender> Contenders(absl::Span<const Candidate> candidates);

  std::unordered_map<uint64_t, Flow> flows_;
  double virtual_time_ = 0;
  uint64_t round_ = 0;
};

// The backend's speed in floating-point operations per second: of the work of the last ticks over
// the time that they took, so that many small pieces of work do not make large ones look slow.
class FlopRate {
 public:
  void Observe(double flops, absl::Duration time);

  // What fits into `time`, and the time that `flops` take; 0 before the first observation.
  double Budget(absl::Duration time) const { return rate() * absl::ToDoubleSeconds(time); }
  absl::Duration TimeOf(double flops) const {
    return seconds_ == 0 ? absl::ZeroDuration() : absl::Seconds(flops / rate());
  }

 private:
  double rate() const { return seconds_ == 0 ? 0 : flops_ / seconds_; }

  double flops_ = 0;  // exponentially smoothed, both
  double seconds_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_LOOP_SCHEDULER_H_
