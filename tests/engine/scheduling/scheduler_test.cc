#include "engine/scheduling/scheduler.h"

#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/length.h"

namespace chorale {
namespace {

using Candidate = Scheduler::Candidate;

std::set<uint64_t> FlowsOf(const std::vector<Scheduler::Pick>& picks,
                           const std::vector<Candidate>& candidates) {
  std::set<uint64_t> flows;
  for (const auto& pick : picks) flows.insert(candidates[pick.candidate].flow);
  return flows;
}

// A flow that always has `tiles` pieces of work.
struct Load {
  uint64_t flow = 0;
  int64_t tiles = 1;
  double step_flops = 1000;
  double served = 0;
};

// Runs one round and charges the flows; returns those that were served.
std::set<uint64_t> RunRound(Scheduler* scheduler, std::vector<Load*> loads, int64_t slices,
                            double budget) {
  std::vector<Candidate> candidates;
  std::map<uint64_t, Load*> by_flow;
  for (Load* load : loads) {
    by_flow[load->flow] = load;
    for (int64_t i = 0; i < load->tiles; ++i) {
      candidates.push_back({load->flow, load->step_flops, 1000});
    }
  }
  const auto picks = scheduler->PickSlices(candidates, {slices, budget});
  for (const auto& pick : picks) {
    const Candidate& candidate = candidates[pick.candidate];
    const double flops = candidate.step_flops * static_cast<double>(pick.steps);
    by_flow[candidate.flow]->served += flops;
    scheduler->Charge(candidate.flow, flops, absl::Milliseconds(10) * (flops / budget));
  }
  return FlowsOf(picks, candidates);
}

TEST(SchedulerTest, PicksEachCandidateAtMostOnceAndWithinLimits) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    Scheduler scheduler;
    std::vector<Candidate> candidates;
    const uint64_t flows = 1 + random() % 8;
    for (uint64_t flow = 0; flow < flows; ++flow) {
      const uint64_t tiles = 1 + random() % 5;
      for (uint64_t tile = 0; tile < tiles; ++tile) {
        candidates.push_back({flow, 1.0 + random() % 1000, 1 + static_cast<int64_t>(random() % 9)});
      }
    }
    const int64_t slices = 1 + static_cast<int64_t>(random() % 6);
    const auto picks = scheduler.PickSlices(candidates, {slices, 1.0 * (random() % 5000)});
    const int64_t expected = std::min<int64_t>(slices, candidates.size());
    ASSERT_EQ(static_cast<int64_t>(picks.size()), expected);
    std::set<size_t> seen;
    for (const auto& pick : picks) {
      ASSERT_TRUE(seen.insert(pick.candidate).second);
      ASSERT_GE(pick.steps, 1);
      ASSERT_LE(pick.steps, candidates[pick.candidate].max_steps);
    }
  }
}

TEST(SchedulerTest, StepsFillTheBudget) {
  Scheduler scheduler;
  const std::vector<Candidate> candidates = {{1, 10, 100}, {2, 10, 100}, {3, 20, 100}, {4, 20, 2}};
  const auto picks = scheduler.PickSlices(candidates, {4, 400});
  ASSERT_EQ(picks.size(), 4u);
  std::map<size_t, int64_t> steps;
  for (const auto& pick : picks) steps[pick.candidate] = pick.steps;
  EXPECT_EQ(steps[0], 10);
  EXPECT_EQ(steps[1], 10);
  EXPECT_EQ(steps[2], 5);
  EXPECT_EQ(steps[3], 2);  // no more are of use
}

TEST(SchedulerTest, WithoutABudgetEverySliceIsOneStep) {
  Scheduler scheduler;
  for (const auto& pick : scheduler.PickSlices({{1, 10, 100}, {2, 10, 100}}, {4, 0})) {
    EXPECT_EQ(pick.steps, 1);
  }
}

TEST(SchedulerTest, NoSliceIsLongerThanAllowed) {
  Scheduler scheduler;
  const std::vector<Candidate> candidates = {{1, 10, 100}, {2, 500, 100}};
  const auto picks =
      scheduler.PickSlices(candidates, {.max_slices = 4, .budget = 4000, .longest = 300});
  ASSERT_EQ(picks.size(), 2u);
  for (const auto& pick : picks) {
    EXPECT_EQ(pick.steps, pick.candidate == 0 ? 30 : 1);  // one step at least
  }
}

TEST(SchedulerTest, TilesOfOneFlowRunInTheirOrder) {
  Scheduler scheduler;
  const std::vector<Candidate> candidates(6, {7, 10, 100});
  const auto picks = scheduler.PickSlices(candidates, {3, 100});
  ASSERT_EQ(picks.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(picks[i].candidate, i);
}

// Long-run shares do not depend on how many tiles a flow has or how expensive its steps are.
TEST(SchedulerTest, SharesAreEqualInTheLongRun) {
  Load narrow{1, 1, 700};
  Load wide{2, 40, 300};
  Load heavy{3, 4, 9000};
  Load light{4, 2, 10};
  Scheduler scheduler;
  for (int i = 0; i < 20000; ++i) {
    RunRound(&scheduler, {&narrow, &wide, &heavy, &light}, 4, 40000);
  }
  const double total = narrow.served + wide.served + heavy.served + light.served;
  for (const Load* load : {&narrow, &wide, &heavy, &light}) {
    EXPECT_NEAR(load->served / total, 0.25, 0.01) << "flow " << load->flow;
  }
}

TEST(SchedulerTest, NoFlowStarvesAmongMany) {
  std::vector<Load> loads;
  std::vector<Load*> pointers;
  std::mt19937 random(3);
  for (uint64_t i = 0; i < 100; ++i) {
    loads.push_back({i, 1 + static_cast<int64_t>(random() % 20), 1.0 + random() % 1000});
  }
  for (Load& load : loads) pointers.push_back(&load);
  Scheduler scheduler;
  std::map<uint64_t, int> last;
  // Steps cost at most an equal share of the budget, so everybody comes round again soon.
  for (int round = 1; round <= 2000; ++round) {
    for (const uint64_t flow : RunRound(&scheduler, pointers, 4, 8000)) last[flow] = round;
    if (round < 100) continue;
    for (const Load& load : loads) ASSERT_LE(round - last[load.flow], 100) << load.flow;
  }
}

TEST(SchedulerTest, ANewcomerIsServedInItsFirstRound) {
  std::vector<Load> old;
  for (uint64_t i = 0; i < 50; ++i) old.push_back({i, 4, 100});
  std::vector<Load*> loads;
  for (Load& load : old) loads.push_back(&load);
  Scheduler scheduler;
  for (int i = 0; i < 1000; ++i) RunRound(&scheduler, loads, 4, 4000);
  // Even one that sorts last among equals waits for no more than the flows that are as far behind.
  Load newcomer{1000, 1, 100};
  loads.push_back(&newcomer);
  int rounds = 1;
  while (!RunRound(&scheduler, loads, 4, 4000).contains(1000)) ++rounds;
  EXPECT_LE(rounds, 1 + 50 / 4);
  // And it cannot claim the time before it came.
  for (int i = 0; i < 1000; ++i) RunRound(&scheduler, loads, 4, 4000);
  const double before = newcomer.served;
  const double other_before = old[0].served;
  for (int i = 0; i < 5000; ++i) RunRound(&scheduler, loads, 4, 4000);
  EXPECT_NEAR((newcomer.served - before) / (old[0].served - other_before), 1.0, 0.05);
}

TEST(SchedulerTest, IdleTimeIsNoCredit) {
  Load a{1, 4, 100};
  Load b{2, 4, 100};
  Scheduler scheduler;
  RunRound(&scheduler, {&a, &b}, 2, 1000);
  for (int i = 0; i < 1000; ++i) RunRound(&scheduler, {&a}, 2, 1000);  // b's reader is slow
  const double a_before = a.served;
  const double b_before = b.served;
  for (int i = 0; i < 1000; ++i) RunRound(&scheduler, {&a, &b}, 2, 1000);
  EXPECT_NEAR((b.served - b_before) / (a.served - a_before), 1.0, 0.02);
}

// A client that always has flows of one tile each.
struct Crowd {
  std::string name;
  double weight = 1;
  int flows = 1;
  double step_flops = 1000;
  int64_t max_steps = 1000;
  double served = 0;
  double flops_a_second = 1e6;
};

// Runs one round; the clients' virtual time is the time that their work takes at their speeds.
std::vector<Scheduler::Pick> RunCrowds(Scheduler* scheduler, const std::vector<Crowd*>& crowds,
                                       const Scheduler::Limits& limits) {
  std::vector<Candidate> candidates;
  std::vector<Crowd*> owners;
  for (Crowd* crowd : crowds) {
    for (int i = 0; i < crowd->flows; ++i) {
      candidates.push_back({std::hash<std::string>()(crowd->name) + static_cast<uint64_t>(i),
                            crowd->step_flops, crowd->max_steps, crowd->name, crowd->weight});
      owners.push_back(crowd);
    }
  }
  auto picks = scheduler->PickSlices(candidates, limits);
  for (const auto& pick : picks) {
    Crowd* const owner = owners[pick.candidate];
    const double flops = owner->step_flops * static_cast<double>(pick.steps);
    owner->served += flops / owner->flops_a_second;
    scheduler->Charge(candidates[pick.candidate].flow, flops,
                      absl::Seconds(flops / owner->flops_a_second));
  }
  return picks;
}

TEST(SchedulerTest, SharesAreThoseOfClientsHoweverManyFlowsTheyHave) {
  std::mt19937 random(5);
  const int mixes = FullLength() ? 20 : 3;
  for (int mix = 0; mix < mixes; ++mix) {
    std::vector<Crowd> crowds;
    const int count = 2 + static_cast<int>(random() % 5);
    for (int i = 0; i < count; ++i) {
      crowds.push_back({"client " + std::to_string(i), 1.0 + random() % 4,
                        4 + static_cast<int>(random() % 50), 10.0 + random() % 100, 1000, 0,
                        1e6 * (1 + random() % 5)});
    }
    std::vector<Crowd*> all;
    double weights = 0;
    for (Crowd& crowd : crowds) {
      all.push_back(&crowd);
      weights += crowd.weight;
    }
    Scheduler scheduler;
    for (int round = 0; round < 5000; ++round) {
      RunCrowds(&scheduler, all, {.max_slices = 4, .budget = 10'000});
    }
    double total = 0;
    for (const Crowd& crowd : crowds) total += crowd.served;
    for (const Crowd& crowd : crowds) {
      EXPECT_NEAR(crowd.served / total, crowd.weight / weights, 0.03) << "mix " << mix;
    }
  }
}

TEST(SchedulerTest, AClientThatWasIdleHasNoCredit) {
  Crowd busy{"busy", 1, 10};
  Crowd other{"other", 1, 1};
  Scheduler scheduler;
  const Scheduler::Limits limits = {.max_slices = 4, .budget = 10'000};
  RunCrowds(&scheduler, {&busy, &other}, limits);
  for (int i = 0; i < 2000; ++i) RunCrowds(&scheduler, {&busy}, limits);
  const double busy_before = busy.served;
  const double other_before = other.served;
  for (int i = 0; i < 1000; ++i) RunCrowds(&scheduler, {&busy, &other}, limits);
  EXPECT_NEAR((other.served - other_before) / (busy.served - busy_before), 1, 0.02);
}

// A step of the others would take ten times what the newcomer needs: it runs alone until it has had
// as much as they, and then they get their turn.
TEST(SchedulerTest, ASmallClientDoesNotWaitForLongStepsOfOnesAheadOfIt) {
  Crowd large{"large", 1, 10, 10'000, 64};
  Scheduler scheduler;
  const Scheduler::Limits limits = {
      .max_slices = 4, .budget = 40'000, .shorten = true, .parallel = 2};
  for (int i = 0; i < 100; ++i) RunCrowds(&scheduler, {&large}, limits);
  Crowd small{"small", 1, 1, 1000, 1};
  const double before = large.served;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(RunCrowds(&scheduler, {&large, &small}, limits).size(), 1u);
  }
  EXPECT_EQ(large.served, before);
  for (int i = 0; i < 10'000; ++i) RunCrowds(&scheduler, {&large, &small}, limits);
  EXPECT_NEAR(small.served / (large.served - before), 1, 0.05) << "who is small gets no more";
}

TEST(SchedulerTest, ATickEndsWhenTheSmallClientIsServed) {
  Crowd large{"large", 1, 10, 100, 1000};
  Crowd small{"small", 1, 1, 50, 10};
  Scheduler scheduler;
  const auto picks = RunCrowds(&scheduler, {&large, &small},
                               {.max_slices = 4, .budget = 40'000, .shorten = true, .parallel = 2});
  ASSERT_EQ(picks.size(), 4u);
  int64_t steps_of_large = 0;
  for (const auto& pick : picks) {
    if (pick.candidate < 10) {
      steps_of_large += pick.steps;
    } else {
      EXPECT_EQ(pick.steps, 10);
    }
  }
  EXPECT_EQ(steps_of_large, 3);  // 500 operations are five steps, of which each slice gets a third
}

TEST(SchedulerTest, NoMoreLongStepsThanRunAtTheSameTime) {
  Crowd large{"large", 1, 10, 30'000, 64};
  Scheduler scheduler;
  Scheduler::Limits limits = {.max_slices = 8, .budget = 40'000, .parallel = 2};
  EXPECT_EQ(RunCrowds(&scheduler, {&large}, limits).size(), 2u);
  limits.budget = 90'000;
  EXPECT_EQ(RunCrowds(&scheduler, {&large}, limits).size(), 4u);
}

TEST(FlopRateTest, ConvergesToTheMeasuredRate) {
  FlopRate rate;
  EXPECT_EQ(rate.Budget(absl::Seconds(1)), 0);
  for (int i = 0; i < 100; ++i) {
    rate.Observe(5e6, absl::Milliseconds(i % 2 == 0 ? 9 : 11));
  }
  EXPECT_NEAR(rate.Budget(absl::Milliseconds(10)), 5e6, 0.15 * 5e6);
}

TEST(FlopRateTest, SmallWorkDoesNotMakeLargeWorkLookSlow) {
  FlopRate rate;
  rate.Observe(1e9, absl::Milliseconds(10));
  for (int i = 0; i < 5; ++i) rate.Observe(1, absl::Microseconds(20));
  EXPECT_NEAR(rate.Budget(absl::Milliseconds(10)), 1e9, 0.02e9);
}

TEST(FlopRateTest, IgnoresWhatCannotBeMeasured) {
  FlopRate rate;
  rate.Observe(1e6, absl::ZeroDuration());
  rate.Observe(0, absl::Seconds(1));
  EXPECT_EQ(rate.Budget(absl::Seconds(1)), 0);
}

}  // namespace
}  // namespace chorale
