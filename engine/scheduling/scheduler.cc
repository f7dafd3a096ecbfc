#include "engine/scheduling/scheduler.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace chorale {

// Both orders are for heaps: the front is the next to be served.

// A flow in a round of picking.
struct Scheduler::FlowContender {
  double virtual_time = 0;  // includes the steps picked in this round
  uint64_t flow = 0;
  size_t next = 0;  // next candidate
  size_t end = 0;

  bool operator<(const FlowContender& other) const {
    return virtual_time != other.virtual_time ? virtual_time > other.virtual_time
                                              : flow > other.flow;
  }
};

// A client in a round of picking.
struct Scheduler::ClientContender {
  double virtual_time = 0;  // includes the steps picked in this round
  Clients::iterator client;
  std::vector<FlowContender> flows;  // a heap

  bool operator<(const ClientContender& other) const {
    return virtual_time != other.virtual_time ? virtual_time > other.virtual_time
                                              : client->first > other.client->first;
  }
};

Scheduler::Flow& Scheduler::FlowOf(const Candidate& candidate) {
  const auto [flow, is_new] = flows_.try_emplace(candidate.flow);
  if (is_new) {
    auto client = clients_.find(candidate.client);
    if (client == clients_.end()) {
      client = clients_.emplace(std::string(candidate.client), Client()).first;
    }
    flow->second.client = client;
  }
  return flow->second;
}

std::vector<Scheduler::ClientContender> Scheduler::Contenders(
    absl::Span<const Candidate> candidates) {
  ++round_;
  std::vector<ClientContender> contenders;
  std::unordered_map<const Client*, size_t> contender_of;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i > 0 && candidates[i].flow == candidates[i - 1].flow) {
      contenders[contender_of[&flows_[candidates[i].flow].client->second]].flows.back().end = i + 1;
      continue;
    }
    Flow& flow = FlowOf(candidates[i]);
    Client& client = flow.client->second;
    if (client.last_round != round_) {
      if (client.last_round + 1 != round_) {
        client.virtual_time = std::max(client.virtual_time, virtual_time_);
      }
      client.last_round = round_;
      client.weight = candidates[i].weight;
      client.start = client.virtual_time;
      client.flows = client.picks = 0;
      client.usable = 0;
      client.all_picked = false;
      contender_of[&client] = contenders.size();
      contenders.push_back({client.virtual_time, flow.client, {}});
    }
    if (flow.last_round + 1 != round_) {
      flow.virtual_time = std::max(flow.virtual_time, client.flow_virtual_time);
    }
    flow.last_round = round_;
    flow.picks = 0;
    contenders[contender_of[&client]].flows.push_back(
        {flow.virtual_time, candidates[i].flow, i, i + 1});
  }
  for (ClientContender& contender : contenders) {
    std::make_heap(contender.flows.begin(), contender.flows.end());
    double& time = contender.client->second.flow_virtual_time;
    time = std::max(time, contender.flows.front().virtual_time);
  }
  std::make_heap(contenders.begin(), contenders.end());
  if (!contenders.empty()) {
    virtual_time_ = std::max(virtual_time_, contenders.front().virtual_time);
  }
  return contenders;
}

std::vector<Scheduler::Pick> Scheduler::PickCandidates(absl::Span<const Candidate> candidates,
                                                       const Limits& limits,
                                                       std::vector<Clients::iterator>* picked) {
  std::vector<ClientContender> heap = Contenders(candidates);
  const double slices = static_cast<double>(
      std::min<int64_t>(limits.max_slices, static_cast<int64_t>(candidates.size())));
  std::vector<Pick> picks;
  double step_flops = 0;  // one step of each pick
  while (!heap.empty() && static_cast<int64_t>(picks.size()) < limits.max_slices) {
    if (!picks.empty() && static_cast<int64_t>(picks.size()) % limits.parallel == 0 &&
        limits.budget > 0 && step_flops >= limits.budget) {
      break;
    }
    std::pop_heap(heap.begin(), heap.end());
    ClientContender& served = heap.back();
    std::pop_heap(served.flows.begin(), served.flows.end());
    FlowContender& flow = served.flows.back();
    Client& client = served.client->second;
    const Candidate& candidate = candidates[flow.next];
    picks.push_back({flow.next, 1});
    step_flops += candidate.step_flops;
    if (flows_[flow.flow].picks++ == 0) ++client.flows;
    if (client.picks++ == 0) picked->push_back(served.client);
    client.usable += candidate.step_flops * static_cast<double>(candidate.max_steps);
    const double flops = std::max(limits.budget / slices, candidate.step_flops);
    const double part = limits.budget > 0 ? flops / limits.budget : 1 / slices;
    flow.virtual_time += flops;
    served.virtual_time += part * absl::ToDoubleSeconds(limits.tick) / client.weight;
    if (++flow.next < flow.end) {
      std::push_heap(served.flows.begin(), served.flows.end());
    } else {
      served.flows.pop_back();
    }
    if (!served.flows.empty()) {
      std::push_heap(heap.begin(), heap.end());
    } else {
      client.all_picked = true;
      heap.pop_back();
    }
  }
  return picks;
}

void Scheduler::SetSteps(absl::Span<const Candidate> candidates, const Limits& limits,
                         absl::Span<const Clients::iterator> picked,
                         std::vector<Pick>* picks) const {
  double weight = 0;
  for (const auto& client : picked) weight += client->second.weight;
  // Returns the budget of the tick for which the client's share equals all operations that it can
  // use.
  const auto enough_for = [weight](const Client& client) {
    return client.all_picked ? client.usable * weight / client.weight
                             : std::numeric_limits<double>::infinity();
  };
  double enough = 0;  // sufficient for each client that needs less than its share of the budget
  // The least virtual time of the clients for which `enough` is sufficient.
  double behind = std::numeric_limits<double>::infinity();
  for (const auto& client : picked) {
    const double all = enough_for(client->second);
    if (!limits.shorten || all >= limits.budget) continue;
    enough = std::max(enough, all);
    behind = std::min(behind, client->second.start);
  }
  std::erase_if(*picks, [&](Pick& pick) {
    const Candidate& candidate = candidates[pick.candidate];
    const Flow& flow = flows_.at(candidate.flow);
    const Client& client = flow.client->second;
    const bool shorter = enough > 0 && enough_for(client) >= limits.budget;
    const double budget = shorter ? enough : limits.budget;
    const double flow_share = budget * client.weight / weight / static_cast<double>(client.flows);
    const double share = std::min(flow_share / static_cast<double>(flow.picks), limits.longest);
    if (shorter && share < candidate.step_flops && client.start > behind) return true;
    const double steps = std::clamp(std::floor(share / candidate.step_flops), 1.0,
                                    static_cast<double>(candidate.max_steps));
    pick.steps = static_cast<int64_t>(steps);
    return false;
  });
}

std::vector<Scheduler::Pick> Scheduler::PickSlices(absl::Span<const Candidate> candidates,
                                                   const Limits& limits) {
  std::vector<Clients::iterator> picked;
  std::vector<Pick> picks = PickCandidates(candidates, limits, &picked);
  SetSteps(candidates, limits, picked, &picks);
  ForgetClients();
  return picks;
}

void Scheduler::ForgetClients() {
  constexpr uint64_t kPeriod = 1024;     // rounds
  constexpr size_t kMostClients = 4096;  // above this number, all idle clients are removed
  if (round_ % kPeriod != 0) return;
  const bool too_many = clients_.size() > kMostClients;
  std::set<const Client*> with_flows;
  for (const auto& [id, flow] : flows_) with_flows.insert(&flow.client->second);
  std::erase_if(clients_, [&](const auto& entry) {
    return (entry.second.virtual_time <= virtual_time_ || too_many) &&
           !with_flows.contains(&entry.second);
  });
}

void Scheduler::Charge(uint64_t flow, double flops, absl::Duration time) {
  const auto found = flows_.find(flow);
  if (found == flows_.end()) return;
  found->second.virtual_time += flops;
  Client& client = found->second.client->second;
  client.virtual_time += absl::ToDoubleSeconds(time) / client.weight;
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
