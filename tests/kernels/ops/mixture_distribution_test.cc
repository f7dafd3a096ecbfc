#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/ops/mixture_head.h"
#include "kernels/ops/mixture_quantiles.h"

namespace chorale::kernels {
namespace {

struct Mixture {
  Mixture(std::vector<double> means, std::vector<double> stds, const std::vector<double>& weights)
      : mean(std::move(means)), std(std::move(stds)) {
    for (double w : weights) log_weight.push_back(std::log(w));
  }
  MixtureView View() const {
    return {mean.data(), std.data(), log_weight.data(), static_cast<int64_t>(mean.size())};
  }
  std::vector<double> mean, std, log_weight;
};

Mixture Standard() { return Mixture({0}, {1}, {1}); }
Mixture TwoEqual() { return Mixture({-1, 3}, {0.5f, 2}, {0.25f, 0.75f}); }
Mixture Separated() { return Mixture({-1000, 0, 500}, {1e-3f, 1e-2f, 1e-3f}, {0.2f, 0.5f, 0.3f}); }

TEST(MixtureLogDensityTest, AgreesWithNumbersWorkedOutByHand) {
  // Standard normal: -log(2 pi)/2 = -0.918938533 at 0, minus y^2/2 elsewhere, however far.
  const Mixture standard = Standard();
  EXPECT_NEAR(MixtureLogDensity(standard.View(), 0), -0.918938533204673, 1e-12);
  EXPECT_NEAR(MixtureLogDensity(standard.View(), 2), -2.918938533204673, 1e-12);
  EXPECT_NEAR(MixtureLogDensity(standard.View(), 1000), -500000.918938533, 1e-6);
  // At y = -1: 0.25 / (0.5 sqrt(2 pi)) + 0.75 exp(-2) / (2 sqrt(2 pi))
  //          = 0.199471140 + 0.020246 = 0.2197175 (exp(-2) = 0.135335283).
  const Mixture two = TwoEqual();
  EXPECT_NEAR(MixtureLogDensity(two.View(), -1),
              std::log(0.25 / 0.5 * 0.3989422804 + 0.75 / 2 * 0.135335283 * 0.3989422804), 1e-7);
}

TEST(MixtureLogDensityTest, IntegratesToOneAndToTheCdf) {
  const Mixture two = TwoEqual();
  double integral = 0;
  const double step = 1e-3;
  for (double y = -20; y < 25; y += step) {
    integral += step * std::exp(MixtureLogDensity(two.View(), y + step / 2));
    if (std::abs(y - 1.0) < step / 2) {
      EXPECT_NEAR(integral, MixtureCdf(two.View(), y + step), 1e-6);
    }
  }
  EXPECT_NEAR(integral, 1.0, 1e-6);
}

TEST(MixtureMomentsTest, AgreeWithNumbersWorkedOutByHand) {
  // mean = -0.25 + 2.25 = 2; variance = 0.25 (0.25 + 9) + 0.75 (4 + 1) = 6.0625.
  const Mixture two = TwoEqual();
  EXPECT_NEAR(MixtureMean(two.View()), 2.0, 1e-7);
  EXPECT_NEAR(MixtureStd(two.View()), std::sqrt(6.0625), 1e-7);
}

TEST(MixtureMomentsTest, NarrowMixtureFarFromZeroDoesNotCancel) {
  // 4096 squared is 1.7e7; a variance of 1e-6 would drown in E[y^2] - mean^2.
  const Mixture far({4096, 4096}, {1e-3f, 1e-3f}, {0.5f, 0.5f});
  EXPECT_NEAR(MixtureStd(far.View()), 1e-3, 1e-9);
}

TEST(MixtureMomentsTest, UnnormalisedWeightsAreRenormalised) {
  const Mixture two({-1, 3}, {0.5f, 2}, {0.5f, 1.5f});
  EXPECT_NEAR(MixtureMean(two.View()), 2.0, 1e-7);
  EXPECT_NEAR(MixtureStd(two.View()), std::sqrt(6.0625), 1e-7);
  EXPECT_NEAR(MixtureCdf(two.View(), 1e6), 1.0, 1e-12);
}

TEST(MixtureDrawTest, ChoosesTheComponentByTheInverseCdf) {
  // Weights 0.2, 0.5, 0.3: sums 0.2, 0.7, 1.
  const Mixture mixture = Separated();
  const auto draw = [&](double u, double z) { return MixtureDraw(mixture.View(), u, z); };
  EXPECT_NEAR(draw(0.0, 0.0), -1000.0, 1e-9);
  EXPECT_NEAR(draw(0.19, 0.0), -1000.0, 1e-9);
  EXPECT_NEAR(draw(0.21, 0.0), 0.0, 1e-9);
  EXPECT_NEAR(draw(0.69, 2.0), 0.02, 1e-8);
  EXPECT_NEAR(draw(0.71, -1.0), 499.999, 1e-6);
  EXPECT_NEAR(draw(1 - 0x1p-53, 0.0), 500.0, 1e-9);
}

TEST(MixtureDrawTest, ComponentsAreInTheOrderOfTheirMeans) {
  // In the order of means: -1 twice (0.125 each), 0 (0.25), 5 (0.5).
  const Mixture mixture({0, 5, -1, -1}, {1, 1, 1, 2}, {0.25f, 0.5f, 0.125f, 0.125f});
  const auto draw = [&](double u) { return MixtureDraw(mixture.View(), u, 1.0); };
  EXPECT_EQ(draw(0.0), 0.0);
  EXPECT_EQ(draw(0.124), 0.0);
  EXPECT_EQ(draw(0.126), 1.0);
  EXPECT_EQ(draw(0.249), 1.0);
  EXPECT_EQ(draw(0.251), 1.0);
  EXPECT_EQ(draw(0.499), 1.0);
  EXPECT_EQ(draw(0.501), 6.0);
  EXPECT_EQ(draw(1 - 0x1p-53), 6.0);
}

TEST(MixtureDrawTest, IsMonotoneInBothNumbers) {
  const Mixture mixture({0.3, -2, 0.1, 4, -2}, {1, 0.5f, 2, 1, 3}, {0.1f, 0.2f, 0.3f, 0.3f, 0.1f});
  double last_mean = -1e9;
  for (int i = 0; i < 1000; ++i) {
    const double u = i / 1000.0;
    const double mean = MixtureDraw(mixture.View(), u, 0.0);
    EXPECT_GE(mean, last_mean) << u;
    EXPECT_LT(MixtureDraw(mixture.View(), u, -1.0), mean) << u;
    EXPECT_GT(MixtureDraw(mixture.View(), u, 1.0), mean) << u;
    last_mean = mean;
  }
}

TEST(MixtureDrawTest, NeverChoosesAComponentWithoutWeight) {
  const Mixture mixture({1, 2, 3}, {1, 1, 1}, {0, 1, 0});
  EXPECT_EQ(MixtureDraw(mixture.View(), 0.0, 0.0), 2.0);
  EXPECT_EQ(MixtureDraw(mixture.View(), 1 - 0x1p-53, 0.0), 2.0);
}

TEST(MixtureCdfTest, AgreesWithTheTableOfTheNormalDistribution) {
  const Mixture standard = Standard();
  EXPECT_NEAR(MixtureCdf(standard.View(), 0), 0.5, 1e-15);
  EXPECT_NEAR(MixtureCdf(standard.View(), 1.959963984540054), 0.975, 1e-12);
  // Phi(-10) = 7.61985e-24: no cancellation in the lower tail.
  EXPECT_NEAR(MixtureCdf(standard.View(), -10) / 7.619853024160527e-24, 1.0, 1e-9);
}

double MixtureQuantile(const MixtureView& mixture, double probability) {
  return MixtureQuantiles(mixture).At(QuantileTarget(probability));
}

TEST(MixtureQuantileTest, AgreesWithTheTableOfTheNormalDistribution) {
  const Mixture standard = Standard();
  EXPECT_NEAR(MixtureQuantile(standard.View(), 0.5), 0.0, 1e-9);
  EXPECT_NEAR(MixtureQuantile(standard.View(), 0.975), 1.959963984540054, 1e-9);
  EXPECT_NEAR(MixtureQuantile(standard.View(), 0.025), -1.959963984540054, 1e-9);
  // Phi(-6) = 9.865876450376946e-10.
  EXPECT_NEAR(MixtureQuantile(standard.View(), 9.865876450376946e-10), -6.0, 1e-8);
  EXPECT_NEAR(MixtureQuantile(standard.View(), 1e-300), -37.0471, 1e-4);
}

TEST(MixtureQuantileTest, InvertsTheCdf) {
  for (const Mixture& mixture :
       {Standard(), TwoEqual(), Mixture({1, 1.001f}, {1e-3f, 3}, {0.999f, 0.001f})}) {
    for (double p : {1e-12, 1e-4, 0.01, 0.2, 0.25, 0.5, 0.7, 0.75, 0.99, 1 - 1e-9}) {
      const double y = MixtureQuantile(mixture.View(), p);
      EXPECT_NEAR(MixtureCdf(mixture.View(), y), p, 1e-12 + 1e-9 * p) << "p = " << p;
    }
    for (double y : {-1.5, 0.0, 0.9, 1.0, 1.2}) {
      const double p = MixtureCdf(mixture.View(), y);
      if (p < 1e-12 || p > 1 - 1e-9) continue;
      EXPECT_NEAR(MixtureQuantile(mixture.View(), p), y, 1e-6) << "y = " << y;
    }
  }
}

TEST(MixtureQuantileTest, FindsNarrowComponentsBetweenWidePlateaus) {
  // Within component 1 (weights 0.2, 0.5, 0.3) the quantile of 0.2 + 0.5 Phi(z) is 0.01 z.
  const Mixture mixture = Separated();
  EXPECT_NEAR(MixtureQuantile(mixture.View(), 0.1), -1000.0, 1e-6);
  EXPECT_NEAR(MixtureQuantile(mixture.View(), 0.45), 0.0, 1e-8);
  EXPECT_NEAR(MixtureQuantile(mixture.View(), 0.2 + 0.5 * 0.8413447460685429), 0.01, 1e-8);
  EXPECT_NEAR(MixtureQuantile(mixture.View(), 0.85), 500.0, 1e-6);
  // At the edge of a plateau any y on it will do.
  const double edge = MixtureQuantile(mixture.View(), 0.2);
  EXPECT_GT(edge, -1000.1);
  EXPECT_LT(edge, 0.1);
}

// Mixtures of every kind: the mass beyond each quantile is its probability.
TEST(MixtureQuantileTest, InvertsTheCdfOfRandomMixtures) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 2'000; ++i) {
    const int components = 1 + i % 20;
    std::vector<double> mean, std, weight;
    for (int j = 0; j < components; ++j) {
      mean.push_back((uniform(random) - 0.5) * std::pow(10.0, i % 4));
      std.push_back(std::pow(10.0, -3 + 4 * uniform(random)));
      weight.push_back(uniform(random) + 1e-3);
    }
    const Mixture mixture(mean, std, weight);
    const MixtureQuantiles quantiles(mixture.View());
    double last = -std::numeric_limits<double>::infinity();
    for (const double p : {1e-6, 0.001, 0.05, 0.25, 0.5, 0.75, 0.95, 0.999, 1 - 1e-6}) {
      const double y = quantiles.At(QuantileTarget(p));
      EXPECT_GE(y, last);
      // A difference of 1e-9 of the smallest standard deviation, or of rounding y, at the density.
      const double density = std::exp(MixtureLogDensity(mixture.View(), y));
      const double slack = 1e-9 * *std::min_element(std.begin(), std.end()) + 1e-14 * std::abs(y);
      EXPECT_NEAR(MixtureCdf(mixture.View(), y), p, density * slack + 1e-14) << i << ", " << p;
      last = y;
    }
  }
}

}  // namespace
}  // namespace chorale::kernels
