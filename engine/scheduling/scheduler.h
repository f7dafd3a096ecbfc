// Selects the pieces of work of the next tick, and their numbers of steps. No threads, no clock.
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

// Implements start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) in two levels: between
// clients, and between the flows of a client, which are its sessions and its encodings. The virtual
// time of a flow is its completed work in floating-point operations. The virtual time of a client
// is the engine time of its work, divided by its weight. Clients are charged time instead of
// operations, because small pieces of work do fewer operations per second. The client with the
// least virtual time is served first, and within it the flow with the least virtual time.
//
// The system's virtual time equals the virtual time of the client that is served next. A client
// that is new, or returns after a pause, starts at this time: it is served at once, and gets no
// credit for the pause. The same applies to the flows of a client.
//
// Thread contract: not thread-safe; the engine thread owns every instance.
class Scheduler {
 public:
  struct Candidate {
    uint64_t flow = 0;
    double step_flops = 0;          // of the next step; positive
    int64_t max_steps = 1;          // number that it can use now; at least 1
    absl::string_view client = {};  // owner of the flow, never changes
    double weight = 1;              // of the client; positive
  };
  struct Pick {
    size_t candidate = 0;  // index into the candidates
    int64_t steps = 1;     // 1 to the candidate's max_steps
  };

  struct Limits {
    int64_t max_slices = 1;                                    // positive
    double budget = 0;                                         // operations of all slices together
    double longest = std::numeric_limits<double>::infinity();  // operations of one slice
    absl::Duration tick = absl::Milliseconds(10);              // expected duration of the budget
    // If true, a client that needs less than its share ends the tick early; see PickSlices.
    bool shorten = false;
    // The number of slices that run at the same time. Candidates are picked in groups of this size,
    // until a step of each fills the budget.
    int64_t parallel = std::numeric_limits<int64_t>::max();  // positive
  };

  // Picks up to max_slices candidates, at least `parallel` if there are as many, and their steps.
  // All steps together take about `budget` operations. The picked clients get shares in proportion
  // to their weights, and the flows of a client get equal shares. No slice exceeds `longest`, but
  // each has at least one step. The candidates of a flow must be adjacent, the most urgent first.
  //
  // With `shorten`, if some clients need less than their shares, the tick ends when these clients
  // are served, and the other clients get their fair part of that time. A candidate whose single
  // step would take longer is skipped if its client is ahead of those clients. So a client with
  // little work waits at most for its fair part of the work of others.
  std::vector<Pick> PickSlices(absl::Span<const Candidate> candidates, const Limits& limits);

  // Charges completed work to a flow and its client.
  void Charge(uint64_t flow, double flops, absl::Duration time);
  // Removes a flow.
  void Remove(uint64_t flow) { flows_.erase(flow); }

 private:
  struct Client {
    double weight = 1;
    double virtual_time = 0;       // seconds, divided by weight
    double flow_virtual_time = 0;  // of its flows, in operations
    uint64_t last_round = 0;       // the last round in which it had work to run
    // Data of that round:
    int64_t flows = 0;  // picked flows
    int64_t picks = 0;
    double usable = 0;        // operations of the picks if each gets its max_steps
    bool all_picked = false;  // no candidate of the client is left
    double start = 0;         // its virtual time at the start
  };
  using Clients = std::map<std::string, Client, std::less<>>;
  struct Flow {
    Clients::iterator client;
    double virtual_time = 0;
    uint64_t last_round = 0;  // the last round in which it had work to run
    int64_t picks = 0;        // in that round
  };
  struct FlowContender;
  struct ClientContender;

  Flow& FlowOf(const Candidate& candidate);
  std::vector<ClientContender> Contenders(absl::Span<const Candidate> candidates);
  std::vector<Pick> PickCandidates(absl::Span<const Candidate> candidates, const Limits& limits,
                                   std::vector<Clients::iterator>* picked);
  // Sets the steps of the picks, and removes the candidates that are skipped.
  void SetSteps(absl::Span<const Candidate> candidates, const Limits& limits,
                absl::Span<const Clients::iterator> picked, std::vector<Pick>* picks) const;
  // Removes clients without flows whose virtual time no longer matters.
  void ForgetClients();

  Clients clients_;
  std::unordered_map<uint64_t, Flow> flows_;
  double virtual_time_ = 0;
  uint64_t round_ = 0;
};

// The speed of the backend in floating-point operations per second: the work of the last ticks
// divided by its time. The ratio of sums prevents many small pieces of work from lowering the rate
// for large pieces.
class FlopRate {
 public:
  void Observe(double flops, absl::Duration time);

  // Budget returns the operations that fit into `time`, and TimeOf the time of `flops`. Both return
  // 0 before the first observation.
  double Budget(absl::Duration time) const { return rate() * absl::ToDoubleSeconds(time); }
  absl::Duration TimeOf(double flops) const {
    return seconds_ == 0 ? absl::ZeroDuration() : absl::Seconds(flops / rate());
  }

 private:
  double rate() const { return seconds_ == 0 ? 0 : flops_ / seconds_; }

  double flops_ = 0;  // both are exponentially smoothed
  double seconds_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_SCHEDULER_H_
