#include "kernels/ops/truncated_mixture.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace chorale::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Mixture {
  Mixture(std::vector<double> means, std::vector<double> stds, const std::vector<double>& weights)
      : mean(std::move(means)), std(std::move(stds)) {
    for (const double w : weights) log_weight.push_back(std::log(w));
  }
  MixtureView View() const {
    return {mean.data(), std.data(), log_weight.data(), static_cast<int64_t>(mean.size())};
  }
  std::vector<double> mean, std, log_weight;
};

// The second component has no weight.
Mixture Three() { return Mixture({3, 1, -1}, {2, 1, 0.5}, {0.75, 0, 0.25}); }

TEST(TruncatedMixtureTest, ItsProbabilityIsTheDifferenceOfCdfs) {
  const Mixture mixture = Three();
  for (const auto& [low, high] : {std::pair{-2.0, -1.5}, {-1.0, 4.0}, {2.0, kInfinity}}) {
    EXPECT_NEAR(TruncatedMixture(mixture.View(), low, high).log_probability(),
                std::log(MixtureCdf(mixture.View(), high) - MixtureCdf(mixture.View(), low)),
                1e-13);
  }
  EXPECT_EQ(TruncatedMixture(mixture.View(), -kInfinity, kInfinity).log_probability(), 0);
  EXPECT_EQ(TruncatedMixture(mixture.View(), 1, 1).log_probability(), -kInfinity);
}

TEST(TruncatedMixtureTest, HasTheWidestComponentFarAway) {
  // z = (203 - 3) / 2 = 100: log(0.75) + log P(Z > 100), where P(Z > z) is density(z) / z
  // (1 - 1/z^2 + ...).
  const double tail = -5000 - 0.91893853320467274 - std::log(100) + std::log1p(-1e-4 + 3e-8);
  EXPECT_NEAR(TruncatedMixture(Three().View(), 203, kInfinity).log_probability(),
              std::log(0.75) + tail, 1e-9);
}

// Draws on a grid of random numbers have the distribution of the mixture in the interval.
TEST(TruncatedMixtureTest, DrawsHaveTheDistributionInTheInterval) {
  const Mixture mixture = Three();
  constexpr int kSide = 200;
  for (const auto& [low, high] : {std::pair{-2.0, 1.0}, {-kInfinity, 0.0}, {4.0, 100.0}}) {
    const double below = MixtureCdf(mixture.View(), low);
    const double inside = MixtureCdf(mixture.View(), high) - below;
    const MixtureView view = mixture.View();
    const TruncatedMixture truncated(view, low, high);
    for (const double share : {0.1, 0.5, 0.9}) {
      int count = 0;
      const double y = low == -kInfinity ? -1.5 + share : low + share * (std::min(high, 8.0) - low);
      for (int i = 0; i < kSide * kSide; ++i) {
        const TruncatedDraw draw = {(i / kSide + 0.5) / kSide, (i % kSide + 0.5) / kSide};
        const double value = truncated.Draw(draw);
        ASSERT_GE(value, low);
        ASSERT_LE(value, high);
        count += value <= y ? 1 : 0;
      }
      EXPECT_NEAR(count / double{kSide * kSide}, (MixtureCdf(mixture.View(), y) - below) / inside,
                  0.006)
          << low << " to " << high << ", " << y;
    }
  }
}

TEST(TruncatedMixtureTest, ADrawIsMonotoneAndNeverOfAComponentWithoutWeight) {
  const Mixture narrow({0, 5, 10}, {1e-3, 1e-3, 1e-3}, {0.5, 0, 0.5});
  const TruncatedMixture truncated(narrow.View(), -1, 11);
  double last = -1;
  for (int i = 1; i < 1000; ++i) {
    const double value = truncated.Draw({i / 1000.0, 0.5});
    EXPECT_GE(value, last);
    EXPECT_TRUE(std::abs(value) < 1 || std::abs(value - 10) < 1);
    last = value;
  }
}

TEST(TruncatedMixtureTest, ReturnsTheNearestEndIfNothingIsThere) {
  const Mixture mixture = Three();
  EXPECT_EQ(TruncatedMixture(mixture.View(), 1e200, 2e200).Draw({0.5, 0.5}), 1e200);
  EXPECT_EQ(TruncatedMixture(mixture.View(), -kInfinity, -1e200).Draw({0.5, 0.5}), -1e200);
}

TEST(DrawTruncatedTest, IsInsideTheUnitSquareAndUniform) {
  double sums[2] = {0, 0};
  constexpr int kPaths = 10'000;
  for (uint64_t path = 0; path < kPaths; ++path) {
    const TruncatedDraw draw = DrawTruncated(7, path);
    for (const double u : {draw.component, draw.value}) {
      ASSERT_GT(u, 0);
      ASSERT_LT(u, 1);
    }
    sums[0] += draw.component;
    sums[1] += draw.value;
  }
  for (const double sum : sums) EXPECT_NEAR(sum / kPaths, 0.5, 0.015);
  EXPECT_NE(DrawTruncated(7, 3).value, DrawTruncated(8, 3).value);
  EXPECT_EQ(DrawTruncated(7, 3).value, DrawTruncated(7, 3).value);
}

}  // namespace
}  // namespace chorale::kernels
