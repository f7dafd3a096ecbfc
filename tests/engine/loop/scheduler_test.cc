#include "engine/loop/scheduler.h"

#include <map>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

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
    scheduler->Charge(candidate.flow, flops);
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
