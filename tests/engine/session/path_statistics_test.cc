#include "engine/session/path_statistics.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

std::vector<double> ValuesOf(FunctionalType type, const std::vector<double>& values,
                             double threshold = 0, bool below = false,
                             const std::vector<double>& weights = {}) {
  Functional functional;
  functional.type = type;
  functional.threshold = threshold;
  functional.below = below;
  std::vector<double> out(IsOfEachRow(type) ? values.size() : 1,
                          std::numeric_limits<double>::quiet_NaN());
  Evaluate(functional, values, weights, absl::MakeSpan(out));
  return out;
}

TEST(PathStatisticsTest, MeanAndStandardDeviation) {
  const PathStatistics statistics = StatisticsOf({1, 2, 3, 6}, {});
  EXPECT_DOUBLE_EQ(statistics.mean, 3);
  EXPECT_DOUBLE_EQ(statistics.std, std::sqrt(14.0 / 3));
  EXPECT_DOUBLE_EQ(statistics.mean_error, std::sqrt(14.0 / 3) / 2);
  EXPECT_TRUE(statistics.quantiles.empty());
}

// As numpy.quantile([1, 2, 3, 6], q), at q and at q -+ sqrt(q (1 - q) / 4).
TEST(PathStatisticsTest, Quantiles) {
  const PathStatistics statistics = StatisticsOf({6, 3, 1, 2}, std::vector<double>{0.5, 0.9, 0.01});
  EXPECT_THAT(statistics.quantiles, Pointwise(DoubleNear(1e-12), {2.5, 5.1, 1.03}));
  EXPECT_THAT(statistics.quantile_errors,
              Pointwise(DoubleNear(1e-12), {(3.75 - 1.75) / 2, (6 - 3.75) / 2,
                                            (1 + 3 * (0.01 + std::sqrt(0.0099 / 4)) - 1) / 2}));
}

TEST(PathStatisticsTest, EqualValuesHaveNoErrors) {
  const PathStatistics statistics = StatisticsOf({4, 4}, std::vector<double>{0.1, 0.9});
  EXPECT_EQ(statistics.mean, 4);
  EXPECT_EQ(statistics.std, 0);
  EXPECT_EQ(statistics.mean_error, 0);
  EXPECT_THAT(statistics.quantiles, ElementsAre(4, 4));
  EXPECT_THAT(statistics.quantile_errors, ElementsAre(0, 0));
}

// Paths 0, 2, 4 and 1, 3, 5 are replicates, with the means 2 and 6 and the medians 1 and 6.
TEST(PathStatisticsTest, ErrorsOfReplicates) {
  const PathStatistics statistics =
      StatisticsOf({0, 5, 1, 6, 5, 7}, std::vector<double>{0.5}, {.replicates = 2});
  EXPECT_DOUBLE_EQ(statistics.mean, 4);
  EXPECT_DOUBLE_EQ(statistics.mean_error, 2);
  EXPECT_DOUBLE_EQ(statistics.std, StatisticsOf({0, 5, 1, 6, 5, 7}, {}).std);
  EXPECT_THAT(statistics.quantiles, ElementsAre(5));
  EXPECT_THAT(statistics.quantile_errors, ElementsAre(DoubleNear(2.5, 1e-12)));
}

TEST(PathStatisticsTest, HugeAndTinyValues) {
  const std::vector<double> values = {1, 2, 3, 6};
  for (const double scale : {1e-300, 1e-170, 1e160, 1e300}) {
    std::vector<double> scaled = values;
    for (double& value : scaled) value *= scale;
    const PathStatistics statistics = StatisticsOf(scaled, {});
    EXPECT_NEAR(statistics.std / scale, std::sqrt(14.0 / 3), 1e-12);
    EXPECT_NEAR(statistics.mean_error / scale, std::sqrt(14.0 / 3) / 2, 1e-12);
  }
}

// The standard deviation of the Beta(1, B + 1) distribution, to the first order in 1 / B.
TEST(PathStatisticsTest, ErrorsOfSettledEvents) {
  EXPECT_NEAR(ErrorOfSettledEvent(100), std::sqrt(1.0 * 101 / (102.0 * 102 * 103)), 2e-4);
  EXPECT_NEAR(ErrorOfSettledEvent(10'000), 1e-4, 1e-6);
}

// Over 500 sets of normal values, the deviations of the estimates are as large as their errors say.
TEST(PathStatisticsTest, ErrorsAreThoseOfTheEstimates) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(1, 2);
  const double quantile = 1 + 2 * 1.2815515655446004;  // 90 %
  double mean_squares = 0, quantile_squares = 0;
  constexpr int kSets = 500;
  for (int set = 0; set < kSets; ++set) {
    std::vector<double> values(400);
    for (double& value : values) value = normal(random);
    const PathStatistics statistics = StatisticsOf(values, std::vector<double>{0.9});
    const double of_mean = (statistics.mean - 1) / statistics.mean_error;
    const double of_quantile = (statistics.quantiles[0] - quantile) / statistics.quantile_errors[0];
    mean_squares += of_mean * of_mean;
    quantile_squares += of_quantile * of_quantile;
  }
  EXPECT_NEAR(std::sqrt(mean_squares / kSets), 1, 0.1);
  EXPECT_NEAR(std::sqrt(quantile_squares / kSets), 1, 0.2);
}

TEST(FunctionalTest, SumsAndExtremes) {
  const std::vector<double> values = {2, -1, 4};
  EXPECT_THAT(ValuesOf(FunctionalType::kSum, values), ElementsAre(5));
  EXPECT_THAT(ValuesOf(FunctionalType::kSum, values, 0, false, {1, 10, 0.5}), ElementsAre(-6));
  EXPECT_THAT(ValuesOf(FunctionalType::kSumBeyond, values, 4.5), ElementsAre(1));
  EXPECT_THAT(ValuesOf(FunctionalType::kSumBeyond, values, 5), ElementsAre(0));
  EXPECT_THAT(ValuesOf(FunctionalType::kSumBeyond, values, -5, true, {1, 10, 0.5}), ElementsAre(1));
  EXPECT_THAT(ValuesOf(FunctionalType::kMean, values), ElementsAre(DoubleNear(5.0 / 3, 1e-15)));
  EXPECT_THAT(ValuesOf(FunctionalType::kMax, values), ElementsAre(4));
  EXPECT_THAT(ValuesOf(FunctionalType::kMin, values), ElementsAre(-1));
}

// A value that equals the threshold is not beyond it.
TEST(FunctionalTest, Thresholds) {
  const std::vector<double> values = {2, -1, 4, 5, 2, 7};
  EXPECT_THAT(ValuesOf(FunctionalType::kCount, values, 2), ElementsAre(3));
  EXPECT_THAT(ValuesOf(FunctionalType::kCount, values, 2, true), ElementsAre(1));
  EXPECT_THAT(ValuesOf(FunctionalType::kAny, values, 7), ElementsAre(0));
  EXPECT_THAT(ValuesOf(FunctionalType::kAny, values, 6.9), ElementsAre(1));
  EXPECT_THAT(ValuesOf(FunctionalType::kAll, values, -1), ElementsAre(0));
  EXPECT_THAT(ValuesOf(FunctionalType::kAll, values, 8, true), ElementsAre(1));
  EXPECT_THAT(ValuesOf(FunctionalType::kExcess, values, 2), ElementsAre(2 + 3 + 5));
  EXPECT_THAT(ValuesOf(FunctionalType::kExcess, values, 2, true), ElementsAre(3));
  EXPECT_THAT(ValuesOf(FunctionalType::kImprovement, values, 2), ElementsAre(5));
  EXPECT_THAT(ValuesOf(FunctionalType::kImprovement, values, 2, true), ElementsAre(3));
  EXPECT_THAT(ValuesOf(FunctionalType::kImprovement, values, 9), ElementsAre(0));
  EXPECT_THAT(ValuesOf(FunctionalType::kLongestRun, values, 2), ElementsAre(2));
  EXPECT_THAT(ValuesOf(FunctionalType::kLongestRun, values, 1.5), ElementsAre(4));
  EXPECT_THAT(ValuesOf(FunctionalType::kLongestRun, values, 10), ElementsAre(0));
}

TEST(FunctionalTest, PlacesOfExtremes) {
  const std::vector<double> values = {2, -1, 4, 4};
  EXPECT_THAT(ValuesOf(FunctionalType::kArgmax, values), ElementsAre(0, 0, 0.5, 0.5));
  EXPECT_THAT(ValuesOf(FunctionalType::kArgmin, values), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(ValuesOf(FunctionalType::kRank, values), ElementsAre(3, 4, 1.5, 1.5));
  EXPECT_THAT(ValuesOf(FunctionalType::kRank, {1, 1, 1}), ElementsAre(2, 2, 2));
}

}  // namespace
}  // namespace chorale
