#include "engine/loop/scheduler.h"

#include <algorithm>
#include <cmath>

namespace chorale {

// A flow during one round of picking.
struct Scheduler::Contender {
  double virtual_time = 0;  // including the steps picked for it in this round
  uint64_t flow = 0;
  size_t next = 0;  // candidate
  size_t end = 0;

  // Heap order: the front is the one to serve next.
  bool operator<(const Contender& other) const {
    return virtual_time != other.virtual_time ? virtual_time > other.virtual_time
                                              : flow > other.flow;
  }
};

std::vector<Scheduler::Contender> Scheduler::Contenders(absl::Span<const Candidate> candidates) {
  ++round_;
  std::vector<Contender> contenders;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!contenders.empty() && contenders.back().flow == candidates[i].flow) {
      contenders.back().end = i + 1;
      continue;
    }
    Flow& flow = flows_[candidates[i].flow];
    if (flow.last_round + 1 != round_) {
      flow.virtual_time = std::max(flow.virtual_time, virtual_time_);
    }
    flow.last_round = round_;
    flow.picks = 0;
    contenders.push_back({flow.virtual_time, candidates[i].flow, i, i + 1});
  }
  std::make_heap(contenders.begin(), contenders.end());
  if (!contenders.empty()) {
    virtual_time_ = std::max(virtual_time_, contenders.front().virtual_time);
  }
  return contenders;
}

std::vector<Scheduler::Pick> Scheduler::PickSlices(absl::Span<const Candidate> candidates,
                                                   const Limits& limits) {
  std::vector<Contender> heap = Contenders(candidates);
  const double slices = static_cast<double>(
      std::min<int64_t>(limits.max_slices, static_cast<int64_t>(candidates.size())));
  std::vector<Pick> picks;
  double flows_picked = 0;
  while (!heap.empty() && static_cast<int64_t>(picks.size()) < limits.max_slices) {
    std::pop_heap(heap.begin(), heap.end());
    Contender& served = heap.back();
    const Candidate& candidate = candidates[served.next];
    picks.push_back({served.next, 1});
    if (flows_[served.flow].picks++ == 0) ++flows_picked;
    served.virtual_time += std::max(limits.budget / slices, candidate.step_flops);
    if (++served.next < served.end) {
      std::push_heap(heap.begin(), heap.end());
    } else {
      heap.pop_back();
    }
  }
  const double flow_share = limits.budget / std::max(1.0, flows_picked);
  for (Pick& pick : picks) {
    const Candidate& candidate = candidates[pick.candidate];
    const double share =
        std::min(flow_share / static_cast<double>(flows_[candidate.flow].picks), limits.longest);
    const double steps = std::clamp(std::floor(share / candidate.step_flops), 1.0,
                                    static_cast<double>(candidate.max_steps));
    pick.steps = static_cast<int64_t>(steps);
  }
  return picks;
}

void Scheduler::Charge(uint64_t flow, double flops) {
  const auto found = flows_.find(flow);
  if (found != flows_.end()) found->second.virtual_time += flops;
}

void FlopRate::Observe(double flops, absl::Duration time) {
  constexpr double kWeight = 0.2;
  const double seconds = absl::ToDoubleSeconds(time);
  if (!(flops > 0) || !(seconds > 0)) return;
  const double weight = seconds_ == 0 ? 1 : kWeight;
  flops_ += weight * (flops - flops_);
  seconds_ += weight * (seconds - seconds_);
}

}  // namespace chorale
