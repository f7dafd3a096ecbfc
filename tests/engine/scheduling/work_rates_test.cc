#include "engine/scheduling/work_rates.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(WorkRatesTest, NothingIsKnownAtFirst) {
  EXPECT_EQ(WorkRates().TimeOf({1e9, 1e9}), absl::ZeroDuration());
}

TEST(WorkRatesTest, EachKindHasItsRate) {
  WorkRates rates;
  rates.Observe({.decode = 10, .other = 60}, absl::Seconds(1), absl::Seconds(2));
  EXPECT_EQ(rates.TimeOf({.decode = 20, .other = 0}), absl::Seconds(2));
  EXPECT_EQ(rates.TimeOf({.decode = 0, .other = 90}), absl::Seconds(3));
  EXPECT_EQ(rates.TimeOf({.decode = 20, .other = 90}), absl::Seconds(5));
}

TEST(WorkRatesTest, AnUnknownKindGoesAsFastAsTheOther) {
  WorkRates decodes;
  decodes.Observe({.decode = 10, .other = 0}, absl::Seconds(1), absl::ZeroDuration());
  EXPECT_EQ(decodes.TimeOf({.decode = 0, .other = 30}), absl::Seconds(3));
  WorkRates others;
  others.Observe({.decode = 0, .other = 5}, absl::ZeroDuration(), absl::Seconds(1));
  EXPECT_EQ(others.TimeOf({.decode = 30, .other = 0}), absl::Seconds(6));
}

TEST(WorkRatesTest, FollowsAChangeWithinSeconds) {
  WorkRates rates;
  const auto run = [&](double per_second, int ticks) {
    for (int i = 0; i < ticks; ++i) {
      rates.Observe({.decode = per_second / 100, .other = 0}, absl::Milliseconds(10),
                    absl::ZeroDuration());
    }
  };
  run(100, 1000);
  EXPECT_NEAR(absl::ToDoubleSeconds(rates.TimeOf({100, 0})), 1, 1e-9);
  run(50, 10);  // a tenth of a second says little
  EXPECT_LT(absl::ToDoubleSeconds(rates.TimeOf({100, 0})), 1.1);
  run(50, 500);
  EXPECT_NEAR(absl::ToDoubleSeconds(rates.TimeOf({100, 0})), 2, 0.05);
}

}  // namespace
}  // namespace chorale
