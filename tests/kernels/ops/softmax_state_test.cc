#include "kernels/ops/softmax_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace chorale::kernels {
namespace {

using State = SoftmaxState<double>;

// The state of a set of scores, by definition.
State StateOf(std::initializer_list<double> scores) {
  State state;
  for (double s : scores) state.m = std::max(state.m, s);
  for (double s : scores) state.l += std::exp(s - state.m);
  return state;
}

TEST(SoftmaxStateTest, EmptySetHasLseMinusInfinity) {
  EXPECT_EQ(State{}.lse(), -HUGE_VAL);
  EXPECT_EQ(SoftmaxState<float>{}.lse(), kEmptyLse);
}

TEST(SoftmaxStateTest, LseIsTheNaturalLogarithmOfTheSum) {
  // exp(0) + exp(log 3) = 4.
  EXPECT_NEAR(StateOf({0.0, std::log(3.0)}).lse(), std::log(4.0), 1e-15);
}

TEST(SoftmaxStateTest, MergingWithTheEmptySetIsTheIdentity) {
  const State some = StateOf({-3.0, 5.0});
  for (const State& merged : {Merge(some, State{}), Merge(State{}, some)}) {
    EXPECT_EQ(merged.m, some.m);
    EXPECT_EQ(merged.l, some.l);
  }
  const State nothing = Merge(State{}, State{});
  EXPECT_EQ(nothing.l, 0.0);
  EXPECT_EQ(nothing.lse(), -HUGE_VAL);
}

TEST(SoftmaxStateTest, MergeIsTheStateOfTheUnionInAnyOrder) {
  const State a = StateOf({1.0, 2.0});
  const State b = StateOf({62.0, -60.0});
  const State c = StateOf({61.5});
  const double expected = StateOf({1.0, 2.0, 62.0, -60.0, 61.5}).lse();
  EXPECT_NEAR(Merge(Merge(a, b), c).lse(), expected, 1e-13);
  EXPECT_NEAR(Merge(a, Merge(b, c)).lse(), expected, 1e-13);
  EXPECT_NEAR(Merge(c, Merge(b, a)).lse(), expected, 1e-13);
}

TEST(SoftmaxStateTest, RescaleFactorIsZeroForAnEmptySideWhateverTheMaximum) {
  EXPECT_EQ(RescaleFactor(-HUGE_VAL, -HUGE_VAL), 0.0);
  EXPECT_EQ(RescaleFactor(-HUGE_VAL, 3.0), 0.0);
  EXPECT_EQ(RescaleFactor(3.0, 3.0), 1.0);
  EXPECT_DOUBLE_EQ(RescaleFactor(1.0, 3.0), std::exp(-2.0));
}

TEST(SoftmaxStateTest, WhatIsFlushedToZeroCannotBeSeenInFloat32) {
  // exp(-87) is 1.6e-38, against half a unit in the last place of 1: 6e-8.
  EXPECT_EQ(1.0f + std::exp(kFlushToZero), 1.0f);
  EXPECT_GT(std::exp(kFlushToZero), std::numeric_limits<float>::min());
}

}  // namespace
}  // namespace chorale::kernels
