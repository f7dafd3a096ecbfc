#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "kernels/ops/normal_quantile.h"
#include "kernels/ops/random.h"

namespace chorale::kernels {
namespace {

struct Point {
  double x = 0;  // uniform
  double y = 0;  // the probability of the normal number
};

StepDraw DrawOf(uint64_t seed, uint64_t path, uint32_t step) {
  return DrawStep(seed, kSobolFlag | path, step);
}

double NormalCdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// Points [first, first + count) of a replicate.
std::vector<Point> PointsOf(uint64_t seed, int replicate, int first, int count, uint32_t step) {
  std::vector<Point> points;
  for (int i = first; i < first + count; ++i) {
    const StepDraw draw = DrawOf(seed, i * kSobolReplicates + replicate, step);
    points.push_back({draw.uniform, NormalCdf(draw.normal)});
  }
  return points;
}

TEST(NormalQuantileTest, InvertsTheDistribution) {
  for (const double p : {1e-300, 1e-20, 1e-9, 1e-3, 0.02, 0.074, 0.076, 0.3, 0.5, 0.7, 0.95}) {
    EXPECT_NEAR(NormalCdf(NormalQuantile(p)) / p, 1, p < 1e-100 ? 1e-12 : 1e-13) << p;
  }
  EXPECT_EQ(NormalQuantile(0.5), 0);
  EXPECT_NEAR(NormalQuantile(0.975), 1.9599639845400545, 1e-15);
  EXPECT_EQ(NormalQuantile(0.25), -NormalQuantile(0.75));
}

// Each aligned block of 2^k points has one point in each of 2^k equal boxes, whatever their shape.
TEST(SobolDrawTest, AlignedPointsOfAReplicateAreNets) {
  for (const uint32_t step : {0u, 5u}) {
    for (const int first : {0, 64, 128}) {
      const std::vector<Point> points = PointsOf(11, 3, first, 64, step);
      for (int columns = 1; columns <= 64; columns *= 2) {
        std::set<std::pair<int, int>> boxes;
        for (const Point& point : points) {
          boxes.emplace(static_cast<int>(point.x * columns),
                        static_cast<int>(point.y * (64 / columns)));
        }
        EXPECT_EQ(boxes.size(), 64) << columns << " columns, from " << first;
      }
    }
  }
}

TEST(SobolDrawTest, EachPointIsUniformAndNormal) {
  constexpr int kSeeds = 40000;
  for (const uint64_t path : {0, 1, 2, 3, 9, 64, 1000}) {
    double sum_x = 0;
    double sum_z = 0;
    double squares = 0;
    double products = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const StepDraw draw = DrawOf(seed, path, 2);
      ASSERT_GE(draw.uniform, 0);
      ASSERT_LT(draw.uniform, 1);
      sum_x += draw.uniform;
      sum_z += draw.normal;
      squares += draw.normal * draw.normal;
      products += (draw.uniform - 0.5) * draw.normal;
    }
    // Six standard errors.
    EXPECT_NEAR(sum_x / kSeeds, 0.5, 6 * std::sqrt(1 / 12.0 / kSeeds)) << path;
    EXPECT_NEAR(sum_z / kSeeds, 0, 6 / std::sqrt(kSeeds)) << path;
    EXPECT_NEAR(squares / kSeeds, 1, 6 * std::sqrt(2.0 / kSeeds)) << path;
    EXPECT_NEAR(products / kSeeds, 0, 6 * std::sqrt(1 / 12.0 / kSeeds)) << path;
  }
}

// Two paths of different replicates, sets, steps or seeds are not correlated.
TEST(SobolDrawTest, ReplicatesSetsAndStepsAreIndependent) {
  constexpr int kSeeds = 40000;
  const auto correlation = [](const auto& first, const auto& second) {
    double sum = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) sum += first(seed) * second(seed);
    return sum / kSeeds;
  };
  const auto base = [](uint64_t seed) { return DrawOf(seed, 8, 4).normal; };
  EXPECT_NEAR(correlation(base, [](uint64_t s) { return DrawOf(s, 9, 4).normal; }), 0, 0.03);
  EXPECT_NEAR(correlation(base, [](uint64_t s) { return DrawOf(s, 8, 5).normal; }), 0, 0.03);
  EXPECT_NEAR(correlation(base, [](uint64_t s) { return DrawOf(s + kSeeds, 8, 4).normal; }), 0,
              0.03);
  EXPECT_NEAR(
      correlation(base, [](uint64_t s) { return DrawOf(s, (uint64_t{1} << 32) | 8, 4).normal; }), 0,
      0.03);
  // Neighbouring points of a replicate are in different halves.
  EXPECT_LT(correlation(base, [](uint64_t s) { return DrawOf(s, 0, 4).normal; }), -0.5);
}

// The mean of a smooth function of the numbers of ten steps has a much smaller error than with
// independent numbers: its parts that depend on one step are nearly exact.
TEST(SobolDrawTest, MeansOverPathsHaveSmallErrors) {
  constexpr int kSeeds = 200;
  constexpr int kPaths = 512;
  const auto mean_square = [&](uint64_t flag) {
    double squares = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      double sum = 0;
      for (uint64_t path = 0; path < kPaths; ++path) {
        double value = 0;
        for (uint32_t step = 0; step < 10; ++step) {
          const StepDraw draw = DrawStep(seed, flag | path, step);
          value = 0.5 * value + draw.normal + (draw.uniform < 0.3 ? 1 : 0) - 0.3;
        }
        sum += value;
      }
      squares += (sum / kPaths) * (sum / kPaths);
    }
    return squares / kSeeds;
  };
  EXPECT_LT(30 * mean_square(kSobolFlag), mean_square(0));
}

}  // namespace
}  // namespace chorale::kernels
