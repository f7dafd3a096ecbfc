#include "engine/context/measured_rate.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(MeasuredRateTest, KnowsNothingBeforeTheFirstWork) {
  MeasuredRate rate;
  EXPECT_EQ(rate.TimeOf(1e9), std::nullopt);
  rate.Observe(1e9, absl::ZeroDuration());
  rate.Observe(0, absl::Seconds(1));
  EXPECT_EQ(rate.TimeOf(1e9), std::nullopt);
}

TEST(MeasuredRateTest, FollowsTheLastSecondOfWork) {
  MeasuredRate rate;
  rate.Observe(2e9, absl::Seconds(1));
  EXPECT_NEAR(absl::ToDoubleSeconds(*rate.TimeOf(4e9)), 2, 1e-9);
  EXPECT_EQ(rate.TimeOf(0), absl::ZeroDuration());
  rate.Observe(50e9, absl::Seconds(5));
  EXPECT_NEAR(absl::ToDoubleSeconds(*rate.TimeOf(10e9)), 1, 0.01);
}

}  // namespace
}  // namespace chorale
