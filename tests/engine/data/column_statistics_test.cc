#include "engine/data/column_statistics.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(ColumnStatisticsTest, ByHand) {
  // Deviations -3, -1, 4: variance 26/3.
  const ColumnStatistics statistics = ComputeStatistics({1.0, NAN, 3.0, 8.0});
  EXPECT_EQ(statistics.count, 3);
  EXPECT_DOUBLE_EQ(statistics.mean, 4);
  EXPECT_DOUBLE_EQ(statistics.std, std::sqrt(26.0 / 3));
}

TEST(ColumnStatisticsTest, NothingThere) {
  for (const std::vector<double>& numbers : {std::vector<double>{}, {NAN, NAN}}) {
    const ColumnStatistics statistics = ComputeStatistics(numbers);
    EXPECT_EQ(statistics.count, 0);
    EXPECT_EQ(statistics.mean, 0);
    EXPECT_EQ(statistics.std, 1);
  }
}

// The mean of a thousand times 0.1, summed, is not 0.1; the deviation would be 1e-16 and not 0.
TEST(ColumnStatisticsTest, ConstantIsExact) {
  const ColumnStatistics statistics = ComputeStatistics(std::vector<double>(1000, 0.1));
  EXPECT_EQ(statistics.mean, 0.1);
  EXPECT_EQ(statistics.std, 0.1);
  EXPECT_EQ(ComputeStatistics({-3.0}).std, 3);
  EXPECT_EQ(ComputeStatistics({0.0, -0.0}).std, 1);
}

TEST(ColumnStatisticsTest, ExtremeMagnitudes) {
  ColumnStatistics statistics = ComputeStatistics({1.5e308, 1.7e308});
  EXPECT_DOUBLE_EQ(statistics.mean, 1.6e308);
  EXPECT_DOUBLE_EQ(statistics.std, 0.1e308);
  statistics = ComputeStatistics({1e-320, 3e-320});
  EXPECT_GT(statistics.std, 0);
  EXPECT_NEAR(statistics.std / 1e-320, 1, 1e-3);
  statistics = ComputeStatistics({1.7e308, -1.7e308, -1.7e308, -1.7e308});
  EXPECT_TRUE(std::isfinite(statistics.mean));
}

// The deviation is below the smallest number there is; dividing by it must stay possible.
TEST(ColumnStatisticsTest, DeviationThatUnderflows) {
  std::vector<double> numbers(1000, 0.0);
  numbers[7] = 5e-324;
  EXPECT_EQ(ComputeStatistics(numbers).std, 5e-324);
}

// Two passes: a large offset does not eat the deviation.
TEST(ColumnStatisticsTest, LargeOffset) {
  const ColumnStatistics statistics = ComputeStatistics({1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16});
  EXPECT_DOUBLE_EQ(statistics.mean, 1e9 + 10);
  EXPECT_DOUBLE_EQ(statistics.std, std::sqrt(22.5));
}

}  // namespace
}  // namespace chorale
