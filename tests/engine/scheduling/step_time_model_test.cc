#include "engine/scheduling/step_time_model.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(StepTimeModelTest, OneStepUntilSomethingIsKnown) {
  const StepTimeModel times;
  EXPECT_EQ(times.StepTime(5), absl::ZeroDuration());
  EXPECT_EQ(times.StepsWithin(5, absl::Seconds(1)), 1);
}

TEST(StepTimeModelTest, FillsTheTime) {
  StepTimeModel times;
  times.Observe(1, 10, absl::Milliseconds(1));
  EXPECT_EQ(times.StepTime(1), absl::Microseconds(100));
  EXPECT_EQ(times.StepsWithin(1, absl::Microseconds(450)), 4);
  EXPECT_EQ(times.StepsWithin(1, absl::Microseconds(50)), 1);
  EXPECT_EQ(times.StepsWithin(1, -absl::Seconds(1)), 1);
}

TEST(StepTimeModelTest, SizesAreLearntApart) {
  StepTimeModel times;
  times.Observe(3, 1, absl::Microseconds(100));
  times.Observe(128, 1, absl::Microseconds(900));
  EXPECT_EQ(times.StepTime(2), absl::Microseconds(100));
  EXPECT_EQ(times.StepTime(255), absl::Microseconds(900));
  EXPECT_EQ(times.StepTime(16), absl::Microseconds(900));  // the slower neighbour
  EXPECT_EQ(times.StepTime(1), absl::Microseconds(100));
  EXPECT_EQ(times.StepTime(1024), absl::Microseconds(900));  // nothing larger is known
}

TEST(StepTimeModelTest, FollowsADeviceThatSlowsDown) {
  StepTimeModel times;
  times.Observe(1, 1, absl::Microseconds(100));
  for (int i = 0; i < 20; ++i) times.Observe(1, 1, absl::Microseconds(200));
  EXPECT_NEAR(absl::ToDoubleMicroseconds(times.StepTime(1)), 200, 1);
}

TEST(SplitElapsedTest, InProportionToWhatWasExpected) {
  EXPECT_EQ(SplitElapsed(absl::Seconds(8), absl::Seconds(1), absl::Seconds(3)), absl::Seconds(2));
}

TEST(SplitElapsedTest, WhatIsNotKnownHasTheRest) {
  EXPECT_EQ(SplitElapsed(absl::Seconds(8), absl::ZeroDuration(), absl::Seconds(1)),
            absl::Seconds(7));
  EXPECT_EQ(SplitElapsed(absl::Seconds(8), absl::Seconds(1), absl::ZeroDuration()),
            absl::Seconds(1));
  EXPECT_EQ(SplitElapsed(absl::Seconds(8), absl::ZeroDuration(), absl::ZeroDuration()),
            absl::Seconds(4));
}

// Otherwise a wrong guess about the one would keep the other unknown forever.
TEST(SplitElapsedTest, WhatIsNotKnownHasHalfAtLeast) {
  EXPECT_EQ(SplitElapsed(absl::Seconds(8), absl::ZeroDuration(), absl::Seconds(9)),
            absl::Seconds(4));
  EXPECT_EQ(SplitElapsed(absl::Seconds(8), absl::Seconds(9), absl::ZeroDuration()),
            absl::Seconds(4));
}

}  // namespace
}  // namespace chorale
