#include "engine/session/known_total.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/session/total_weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops/random.h"
#include "tests/engine/engine_fixture.h"

namespace chorale {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr kernels::TruncatedDraw kMiddle = {0.5, 0.5};

// A normal distribution, in the user's units, as a model returns it.
class Normal {
 public:
  Normal(double mean, double std, const FeatureTransform& transform)
      : mean_((mean - transform.y_mean()) / transform.y_std()), std_(std / transform.y_std()) {}
  MixtureSpan Span() const {
    return {absl::MakeConstSpan(&mean_, 1), absl::MakeConstSpan(&std_, 1),
            absl::MakeConstSpan(&log_weight_, 1)};
  }

 private:
  const double mean_;
  const double std_;
  const double log_weight_ = 0;
};

double LogDensity(double y, double mean, double std) {
  const double z = (y - mean) / std;
  return -0.5 * z * z - std::log(std) - 0.5 * std::log(2 * M_PI);
}
double NormalCdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

PartialSum SumOf(const std::vector<double>& values) {
  PartialSum sum;
  for (const double value : values) sum.Add(value);
  return sum;
}

// A transform with a scale, of a target of some values.
FeatureTransform TransformOf(const std::vector<double>& values) {
  Dataset dataset = testing::MakeDataset(static_cast<int64_t>(values.size()));
  dataset.y = values;
  ModelConfig config;
  config.normalize_y = Normalization::kZScore;
  return *FeatureTransform::Fit(dataset, config);
}
FeatureTransform Continuous() {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back(12 + 30 * std::fmod(i * std::sqrt(2.0), 1.0));
  return TransformOf(values);
}
FeatureTransform Counts() {  // integers, at least 0
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) values.push_back(i % 6 % 4);
  values.push_back(9);
  return TransformOf(values);
}
// 0 and 100, and other numbers of both signs.
FeatureTransform Atoms() {
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(200 * std::fmod(i * std::sqrt(2.0), 1.0) - 40);
  values.insert(values.end(), 30, 0);
  values.insert(values.end(), 20, 100);
  return TransformOf(values);
}

TEST(KnownTotalTest, AnExactTotalReplacesTheValue) {
  const FeatureTransform transform = Continuous();
  const Normal normal(20, 3, transform);
  const LastValue last = LastValueForTotal({50, 50}, SumOf({10, 17.5}), normal.Span(), transform,
                                           Snapping::kOn, kMiddle);
  EXPECT_EQ(last.value, 22.5);
  EXPECT_EQ(last.unsnapped, 22.5);
  EXPECT_TRUE(last.is_density);
  EXPECT_NEAR(last.log_weight, LogDensity(22.5, 20, 3), 1e-12);
}

TEST(KnownTotalTest, AnIntervalTruncatesTheMixture) {
  const FeatureTransform transform = Continuous();
  const Normal normal(20, 3, transform);
  const auto last = [&](KnownTotal total, double u) {
    return LastValueForTotal(total, SumOf({10, 17.5}), normal.Span(), transform, Snapping::kOn,
                             {0.5, u});
  };
  // Of the last value: 22.5 to 24.5, or z from 5/6 to 3/2.
  const double probability = NormalCdf(1.5) - NormalCdf(5.0 / 6);
  EXPECT_NEAR(last({50, 52}, 0.5).log_weight, std::log(probability), 1e-12);
  EXPECT_FALSE(last({50, 52}, 0.5).is_density);
  for (const double u : {0.01, 0.3, 0.9}) {
    const double value = last({50, 52}, u).value;
    EXPECT_NEAR((NormalCdf((value - 20) / 3) - NormalCdf(5.0 / 6)) / probability, u, 1e-12);
  }
  EXPECT_NEAR(last({50, kInfinity}, 0.5).log_weight, std::log(1 - NormalCdf(5.0 / 6)), 1e-12);
  EXPECT_NEAR(last({-kInfinity, 50}, 0.5).log_weight, std::log(NormalCdf(5.0 / 6)), 1e-12);
  EXPECT_GE(last({50, kInfinity}, 1e-9).value, 22.5);
  EXPECT_LE(last({-kInfinity, 50}, 1 - 1e-9).value, 22.5);
}

TEST(KnownTotalTest, ATotalInTheFarTailHasAFiniteWeight) {
  const FeatureTransform transform = Continuous();
  const Normal normal(20, 3, transform);
  const LastValue last =
      LastValueForTotal({1020, 1021}, SumOf({}), normal.Span(), transform, Snapping::kOn, kMiddle);
  EXPECT_NEAR(last.log_weight, -0.5 * (1000.0 / 3) * (1000.0 / 3) - std::log(1000.0 / 3) - 0.91894,
              1e-3);
  EXPECT_GE(last.value, 1020);
  EXPECT_LE(last.value, 1020.1);
}

TEST(KnownTotalTest, CountsHaveTheProbabilityOfTheNumbersThatAreSnapped) {
  const FeatureTransform transform = Counts();
  const Normal normal(2.2, 1.5, transform);
  const auto last = [&](KnownTotal total, double u) {
    return LastValueForTotal(total, SumOf({3, 0, 4}), normal.Span(), transform, Snapping::kOn,
                             {0.5, u});
  };
  const auto cdf = [](double y) { return NormalCdf((y - 2.2) / 1.5); };
  EXPECT_EQ(last({10, 10}, 0.5).value, 3);
  EXPECT_FALSE(last({10, 10}, 0.5).is_density);
  EXPECT_NEAR(last({10, 10}, 0.5).log_weight, std::log(cdf(3.5) - cdf(2.5)), 1e-12);
  EXPECT_NEAR(last({7, 7}, 0.5).log_weight, std::log(cdf(0.5)), 1e-12) << "0 or less";
  // Not possible: a negative count, and half a count.
  EXPECT_EQ(last({6, 6}, 0.5).log_weight, -kInfinity);
  EXPECT_EQ(last({6, 6}, 0.5).value, -1);
  EXPECT_EQ(last({9.5, 9.5}, 0.5).log_weight, -kInfinity);
  EXPECT_EQ(last({9.5, 9.5}, 0.5).value, 2.5);

  EXPECT_NEAR(last({9.5, 12}, 0.5).log_weight, std::log(cdf(5.5) - cdf(2.5)), 1e-12);
  for (double u = 0.02; u < 1; u += 0.05) {
    const double value = last({9.5, 12}, u).value;
    EXPECT_EQ(value, std::nearbyint(value));
    EXPECT_GE(value, 3);
    EXPECT_LE(value, 5);
  }
  EXPECT_EQ(last({2, 6}, 0.5).log_weight, -kInfinity);
  EXPECT_EQ(last({2, 6}, 0.5).value, -1) << "the end that is nearest to a count";
  EXPECT_EQ(last({8.2, 8.8}, 0.5).log_weight, -kInfinity);
}

TEST(KnownTotalTest, WithoutSnappingCountsAreContinuous) {
  const FeatureTransform transform = Counts();
  const Normal normal(2.2, 1.5, transform);
  const LastValue last = LastValueForTotal({6.5, 6.5}, SumOf({3, 0, 4}), normal.Span(), transform,
                                           Snapping::kOff, kMiddle);
  EXPECT_EQ(last.value, -0.5);
  EXPECT_NEAR(last.log_weight, LogDensity(-0.5, 2.2, 1.5), 1e-12);
}

TEST(KnownTotalTest, DecimalsOfALatticeArePossibleInSpiteOfRounding) {
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) values.push_back(i % 12 / 10.0);
  const FeatureTransform transform = TransformOf(values);
  const Normal normal(0.5, 0.3, transform);
  for (int i = 1; i <= 9; ++i) {
    const double total = i / 10.0 + 0.6;
    const LastValue last = LastValueForTotal({total, total}, SumOf({0.1, 0.2, 0.3}), normal.Span(),
                                             transform, Snapping::kOn, kMiddle);
    EXPECT_EQ(last.value, i / 10.0);
    EXPECT_GT(last.log_weight, -10);
    const LastValue below = LastValueForTotal({-kInfinity, total}, SumOf({0.1, 0.2, 0.3}),
                                              normal.Span(), transform, Snapping::kOn, {0.5, 1e-9});
    EXPECT_NEAR(below.log_weight, std::log(NormalCdf((i / 10.0 + 0.05 - 0.5) / 0.3)), 1e-6);
  }
}

TEST(KnownTotalTest, AnAtomHasAProbabilityAndOtherValuesADensity) {
  const FeatureTransform transform = Atoms();
  const Normal normal(40, 60, transform);
  const auto last = [&](double total) {
    return LastValueForTotal({total, total}, SumOf({20, 30}), normal.Span(), transform,
                             Snapping::kOn, kMiddle);
  };
  EXPECT_TRUE(last(90).is_density);
  EXPECT_NEAR(last(90).log_weight, LogDensity(40, 40, 60), 1e-12);
  EXPECT_FALSE(last(50).is_density);
  EXPECT_GT(last(50).log_weight, -10);
  EXPECT_EQ(last(50.01).log_weight, -kInfinity) << "snapped to the atom";
  EXPECT_EQ(last(50 + 1e-15).value, 0);
}

// X and Y are independent normals with the means 10 and 20 and the standard deviations 3 and 4.
// Given X + Y = 35, X has the mean 10 + 9/25 * 5 = 11.8 and the variance 9 * 16/25 = 5.76.
TEST(KnownTotalTest, WeightedPathsHaveTheDistributionGivenTheTotal) {
  const FeatureTransform transform = Continuous();
  const Normal normal(20, 4, transform);
  constexpr int64_t kPaths = 100'000;
  const auto moments = [&](KnownTotal total) {
    TotalWeights weights(kPaths, 1);
    std::vector<double> firsts;
    std::vector<double> totals;
    for (int64_t path = 0; path < kPaths; ++path) {
      const double first = 10 + 3 * kernels::DrawStep(1, path, 0).normal;
      const LastValue last = LastValueForTotal(total, SumOf({first}), normal.Span(), transform,
                                               Snapping::kOn, kernels::DrawTruncated(1, path));
      weights.Set(path, 0, last);
      firsts.push_back(first);
      totals.push_back(first + last.value);
    }
    const std::vector<double> log_weights = weights.LogWeights();
    std::vector<double> sums(4);  // of weights, of X, of X^2, of totals
    for (int64_t path = 0; path < kPaths; ++path) {
      const double weight = std::exp(log_weights[path]);
      sums[0] += weight;
      sums[1] += weight * firsts[path];
      sums[2] += weight * firsts[path] * firsts[path];
      sums[3] += weight * totals[path];
    }
    const double mean = sums[1] / sums[0];
    return std::vector<double>{mean, sums[2] / sums[0] - mean * mean, sums[3] / sums[0],
                               sums[0] / kPaths};
  };
  // The mean weight is the density of the total, or its probability.
  EXPECT_THAT(moments({35, 35}),
              ElementsAre(DoubleNear(11.8, 0.03), DoubleNear(5.76, 0.1), DoubleNear(35, 1e-9),
                          DoubleNear(std::exp(LogDensity(35, 30, 5)), 2e-4)));
  // At least 35: the total has the mean 30 + 5 h, h = density(1) / P(Z > 1) = 1.5251353, and X has
  // the mean 10 + 9/25 * 5 h.
  EXPECT_THAT(moments({35, kInfinity}),
              ElementsAre(DoubleNear(10 + 1.8 * 1.5251353, 0.05), ::testing::_,
                          DoubleNear(30 + 5 * 1.5251353, 0.05), DoubleNear(0.1586553, 1e-3)));
}

LastValue Weight(double log_weight, bool is_density = false) {
  return {.log_weight = log_weight, .is_density = is_density};
}

TEST(TotalWeightsTest, EffectiveSampleSizesAreThoseOfEachGroup) {
  TotalWeights weights(4, 3);
  for (int64_t path = 0; path < 4; ++path) weights.Set(path, 1, Weight(-kInfinity));
  // 1, 1, 2 and 0, times a factor that a float64 cannot represent: 16 / 6.
  weights.Set(0, 2, Weight(-5000));
  weights.Set(1, 2, Weight(-5000));
  weights.Set(2, 2, Weight(-5000 + std::log(2)));
  weights.Set(3, 2, Weight(-kInfinity));
  const std::vector<double> log_weights = weights.LogWeights();
  EXPECT_EQ(log_weights[5], -5000);
  EXPECT_EQ(log_weights[0], 0) << "of a group without a total";
  EXPECT_THAT(EffectiveSampleSizes(log_weights, 3), ElementsAre(4, 0, DoubleNear(16.0 / 6, 1e-9)));
}

TEST(TotalWeightsTest, DensitiesAreNothingBesideAProbability) {
  TotalWeights weights(2, 3);
  weights.Set(0, 0, Weight(3, true));
  weights.Set(1, 0, Weight(-2));
  weights.Set(0, 1, Weight(3, true));
  weights.Set(1, 1, Weight(2, true));
  weights.Set(0, 2, Weight(3, true));
  weights.Set(1, 2, Weight(-kInfinity));
  EXPECT_THAT(weights.LogWeights(), ElementsAre(-kInfinity, 3, 3, -2, 2, -kInfinity));
}

}  // namespace
}  // namespace chorale
