// Which pieces of work run in the next tick, and for how many steps. No threads, no clock.
#ifndef CHORALE_ENGINE_SCHEDULING_SCHEDULER_H_
#define CHORALE_ENGINE_SCHEDULING_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace chorale {

// Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) in two levels: between clients, and
// between a client's flows, one per session and one per encoding. A flow's virtual time is the work
// it was given, in floating-point operations; a client's is the engine's time that it was given, by
// its weight, because small pieces of work do fewer operations a second. Whoever has least is
// served first. The system's virtual time is that of the client served next, and a client's that of
// its flow served next. Who arrives, or returns after it had nothing to run, starts there: it is
// served at once, and cannot claim time that it did not use.
//
// Thread contract: not thread-safe; the engine thread owns every instance.
class Scheduler {
 public:
  struct Candidate {
    uint64_t flow = 0;
    double step_flops = 0;          // of the next step; positive
    int64_t max_steps = 1;          // that it can use now; at least 1
    absl::string_view client = {};  // that the flow belongs to, always the same
    double weight = 1;              // of the client; positive
  };
  struct Pick {
    size_t candidate = 0;  // index into the candidates
    int64_t steps = 1;     // 1 to its max_steps
  };

  struct Limits {
    int64_t max_slices = 1;                                    // positive
    double budget = 0;                                         // operations of all slices together
    double longest = std::numeric_limits<double>::infinity();  // operations of one slice
    absl::Duration tick = absl::Milliseconds(10);              // that the budget takes, about
    // Whether a client that needs less than its share ends the tick early: see PickSlices.
    bool shorten = false;
    // Slices that run at the same time. More are picked as many at a time, and only where a step of
    // each fits in the budget.
    int64_t parallel = std::numeric_limits<int64_t>::max();  // positive
  };

  // Picks up to max_slices candidates, at least `parallel` if there are, and steps such that all of
  // them together take about `budget` operations: equal shares for the clients picked, by weight,
  // and of a client's for its flows, none longer than `longest`, but at least one step each.
  // Candidates of one flow are neighbours, the most urgent first.
  //
  // With `shorten`, a tick in which some clients can use less than their shares ends when they are
  // served: the others get what is fair in that time. One whose single step would be longer, and
  // that is ahead of those clients, is left out. So a client with little to do waits for at most
  // its fair part of the others' work.
  std::vector<Pick> PickSlices(absl::Span<const Candidate> candidates, const Limits& limits);

  // Charges a flow, and the client that it belongs to, for work that was done.
  void Charge(uint64_t flow, double flops, absl::Duration time);
  // Removes a flow.
  void Remove(uint64_t flow) { flows_.erase(flow); }

 private:
  struct Client {
    double weight = 1;
    double virtual_time = 0;       // seconds by weight
    double flow_virtual_time = 0;  // of its flows, in operations
    uint64_t last_round = 0;       // the last round in which it had something to run
    // Of that round:
    int64_t flows = 0;  // picked
    int64_t picks = 0;
    double usable = 0;        // operations of the picks, if each gets its max_steps
    bool all_picked = false;  // no candidate of it is left
    double start = 0;         // its virtual time at the start
  };
  using Clients = std::map<std::string, Client, std::less<>>;
  struct Flow {
    Clients::iterator client;
    double virtual_time = 0;
    uint64_t last_round = 0;  // the last round in which it had something to run
    int64_t picks = 0;        // in that round
  };
  struct FlowContender;
  struct ClientContender;

  Flow& FlowOf(const Candidate& candidate);
  std::vector<ClientContender> Contenders(absl::Span<const Candidate> candidates);
  std::vector<Pick> PickCandidates(absl::Span<const Candidate> candidates, const Limits& limits,
                                   std::vector<Clients::iterator>* picked);
  // Sets the steps of the picks, and drops those that are left out.
  void SetSteps(absl::Span<const Candidate> candidates, const Limits& limits,
                absl::Span<const Clients::iterator> picked, std::vector<Pick>* picks) const;
  // Forgets the clients without flows whose virtual time says nothing any more.
  void ForgetClients();

  Clients clients_;
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

#endif  // CHORALE_ENGINE_SCHEDULING_SCHEDULER_H_
