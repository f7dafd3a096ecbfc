// Centres by k-means++ against the float64 reference, and their properties where distances and
// weights are extreme.
#include "kernels/ops/spread_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Spread {
  std::vector<int32_t> centres, nearest;
  std::vector<float> distance;
};

struct Problem {
  int64_t n = 0;
  int64_t head_dim = 16;
  std::vector<float> rows;         // [n, Dh]
  std::vector<float> log_weights;  // [n], or empty

  static Problem Random(int64_t n, int64_t head_dim, uint32_t seed) {
    return {.n = n,
            .head_dim = head_dim,
            .rows = RandomTensor(n * head_dim, seed),
            .log_weights = RandomTensor(n, seed + 1)};
  }

  // In calls of `step` centres. Paddings, and the state before the first call, are NaN or invalid.
  Spread Run(void (*spread_keys)(const SpreadKeysParams&), int64_t count, int64_t step,
             uint64_t seed = 5) const {
    const int64_t padded = RoundUp(n, kPanel);
    std::vector<float> keys(PackedKeysSize(n, head_dim), kNan);
    for (int64_t i = 0; i < n * head_dim; ++i) {
      const int64_t key = i / head_dim;
      keys[((key / kPanel) * head_dim + i % head_dim) * kPanel + key % kPanel] = rows[i];
    }
    std::vector<double> weight(n, kNan);
    Spread spread = {.centres = std::vector<int32_t>(count, -1),
                     .nearest = std::vector<int32_t>(padded, -1),
                     .distance = std::vector<float>(padded, kNan)};
    SpreadKeysParams p;
    p.keys = keys.data();
    p.log_weights = log_weights.empty() ? nullptr : log_weights.data();
    p.weight = weight.data();
    p.distance = spread.distance.data();
    p.nearest = spread.nearest.data();
    p.centres = spread.centres.data();
    p.n = n;
    p.head_dim = head_dim;
    p.centre_count = count;
    p.seed = seed;
    p.stream = 3;
    for (p.first_centre = 0; p.first_centre < count; p.first_centre += step) {
      p.end_centre = std::min(p.first_centre + step, count);
      EXPECT_TRUE(ValidateSpreadKeys(p).ok()) << ValidateSpreadKeys(p);
      spread_keys(p);
    }
    spread.nearest.resize(n);
    spread.distance.resize(n);
    return spread;
  }

  double Square(int64_t a, int64_t b) const {
    double square = 0;
    for (int64_t d = 0; d < head_dim; ++d) {
      const double difference =
          static_cast<double>(rows[a * head_dim + d]) - rows[b * head_dim + d];
      square += difference * difference;
    }
    return square;
  }
};

// Centres are distinct keys, and join themselves; each other key joins a centre.
void ExpectValid(const Problem& problem, const Spread& spread) {
  const auto count = static_cast<int32_t>(spread.centres.size());
  EXPECT_EQ(std::set<int32_t>(spread.centres.begin(), spread.centres.end()).size(),
            spread.centres.size());
  for (int32_t c = 0; c < count; ++c) {
    ASSERT_GE(spread.centres[c], 0);
    ASSERT_LT(spread.centres[c], problem.n);
    EXPECT_EQ(spread.nearest[spread.centres[c]], c);
    EXPECT_EQ(spread.distance[spread.centres[c]], -1);
  }
  for (int64_t key = 0; key < problem.n; ++key) {
    EXPECT_GE(spread.nearest[key], 0);
    EXPECT_LT(spread.nearest[key], count);
    EXPECT_TRUE(std::isfinite(spread.distance[key]));
  }
}

class SpreadKeysTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(SpreadKeysTest);

TEST_P(SpreadKeysTest, AgreesWithReference) {
  for (int64_t head_dim : {8, 16, 32, 64, 128}) {
    for (int64_t n : {1, 2, 9, 16, 17, 100, 300}) {
      for (int64_t count : {int64_t{1}, (n + 2) / 3, n}) {
        SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", " << count << " of " << n);
        const Problem problem = Problem::Random(n, head_dim, 1);
        const Spread expected = problem.Run(&reference::SpreadKeys, count, count);
        const Spread actual = problem.Run(&SpreadKeys, count, RoundUp(count, kCentresAtOnce));
        EXPECT_EQ(actual.centres, expected.centres);
        EXPECT_EQ(actual.nearest, expected.nearest);
        EXPECT_THAT(actual.distance, TensorNear(expected.distance, Tolerance{0, 2e-6}));
        ExpectValid(problem, actual);
      }
    }
  }
}

TEST_P(SpreadKeysTest, AnyDivisionIntoCallsHasTheSameBits) {
  const Problem problem = Problem::Random(211, 32, 2);
  const Spread at_once = problem.Run(&SpreadKeys, 101, 104);
  for (int64_t step : {8, 24, 96}) {
    const Spread stepwise = problem.Run(&SpreadKeys, 101, step);
    EXPECT_EQ(stepwise.centres, at_once.centres) << step;
    EXPECT_EQ(stepwise.nearest, at_once.nearest) << step;
    EXPECT_THAT(stepwise.distance, TensorBitsEqual(at_once.distance)) << step;
  }
}

TEST_P(SpreadKeysTest, NoWeightsAreWeightsOfOne) {
  Problem problem = Problem::Random(100, 16, 3);
  problem.log_weights.assign(100, 0.0f);
  const Spread expected = problem.Run(&SpreadKeys, 30, 32);
  problem.log_weights.clear();
  EXPECT_EQ(problem.Run(&SpreadKeys, 30, 32).centres, expected.centres);
}

// Twenty keys in each of six places: after the first group, places without a centre come first, so
// that every key joins a centre of its place.
TEST_P(SpreadKeysTest, Duplicates) {
  Problem problem = Problem::Random(120, 16, 4);
  for (int64_t i = 6 * 16; i < 120 * 16; ++i) problem.rows[i] = problem.rows[i % (6 * 16)];
  for (int64_t count : {32, 45, 120}) {
    const Spread spread = problem.Run(&SpreadKeys, count, 8);
    ExpectValid(problem, spread);
    for (int64_t key = 0; key < 120; ++key) {
      EXPECT_EQ(problem.Square(key, spread.centres[spread.nearest[key]]), 0) << key;
    }
  }
}

TEST_P(SpreadKeysTest, HugeAndTinyKeysAndWeights) {
  for (const float scale : {1e30f, 1e19f, 1e-20f, 1e-38f}) {
    for (const float weight_scale : {0.0f, 100.0f, 1000.0f}) {
      SCOPED_TRACE(testing::Message() << scale << " " << weight_scale);
      Problem problem = Problem::Random(90, 16, 5);
      for (float& number : problem.rows) number *= scale;
      for (float& number : problem.log_weights) number *= weight_scale;
      ExpectValid(problem, problem.Run(&SpreadKeys, 40, 16));
      ExpectValid(problem, problem.Run(&SpreadKeys, 90, 16));
    }
  }
}

// Keys that are not finite are as far as possible from all others, on every instruction set.
TEST_P(SpreadKeysTest, InfiniteAndNanKeys) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Problem problem = Problem::Random(90, 16, 8);
  problem.rows[3 * 16] = kNan;
  problem.rows[20 * 16 + 15] = kInfinity;
  problem.rows[21 * 16 + 15] = kInfinity;
  problem.rows[40 * 16 + 7] = -kInfinity;
  std::fill_n(problem.rows.begin() + 60 * 16, 16, kNan);
  std::fill_n(problem.rows.begin() + 61 * 16, 16, kInfinity);
  for (int64_t count : {4, 8, 40, 90}) {
    SCOPED_TRACE(count);
    const Spread expected = problem.Run(&reference::SpreadKeys, count, count);
    const Spread actual = problem.Run(&SpreadKeys, count, RoundUp(count, kCentresAtOnce));
    ExpectValid(problem, actual);
    EXPECT_EQ(actual.centres, expected.centres);
    EXPECT_EQ(actual.nearest, expected.nearest);
    EXPECT_THAT(actual.distance, TensorNear(expected.distance, Tolerance{0, 2e-6}));
  }
  const Spread spread = problem.Run(&SpreadKeys, 16, 16);
  for (const int32_t key : {3, 20, 21, 40, 60, 61}) {
    EXPECT_THAT(spread.centres, testing::Contains(key));
  }
}

// A far key is a centre even if it is a single key among many, unless its weight is negligible.
TEST_P(SpreadKeysTest, FarKeysAndHeavyKeysAreCentres) {
  Problem problem = Problem::Random(200, 16, 6);
  problem.log_weights.assign(200, 0.0f);
  for (int64_t d = 0; d < 16; ++d) problem.rows[77 * 16 + d] += 1e4f;
  problem.log_weights[123] = 40;
  const Spread spread = problem.Run(&SpreadKeys, 16, 16);
  EXPECT_THAT(spread.centres, testing::Contains(77));
  EXPECT_THAT(spread.centres, testing::Contains(123));
  EXPECT_EQ(std::count(spread.nearest.begin(), spread.nearest.end(), spread.nearest[77]), 1);
}

// The first centre is drawn in proportion to the weights.
TEST_P(SpreadKeysTest, TheFirstCentreFollowsTheWeights) {
  constexpr int kDraws = 4'000;
  Problem problem = Problem::Random(4, 8, 7);
  const std::array<double, 4> probability = {0.1, 0.2, 0.3, 0.4};
  for (int i = 0; i < 4; ++i) problem.log_weights[i] = static_cast<float>(std::log(probability[i]));
  std::array<int, 4> found = {};
  for (int seed = 0; seed < kDraws; ++seed) {
    ++found[problem.Run(&SpreadKeys, 1, 8, seed).centres[0]];
  }
  double chi_square = 0;
  for (int i = 0; i < 4; ++i) {
    const double expected = kDraws * probability[i];
    chi_square += (found[i] - expected) * (found[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 16.3);  // 3 degrees of freedom: with probability 0.001 above
}

// The ninth of ten keys is the first that distances decide.
TEST_P(SpreadKeysTest, LaterCentresFollowWeightTimesSquaredDistance) {
  constexpr int kDraws = 4'000;
  // Eight heavy keys in one place, which are the first group, and two others.
  Problem problem = {.n = 10,
                     .head_dim = 8,
                     .rows = std::vector<float>(80),
                     .log_weights = std::vector<float>(10, 30)};
  problem.rows[8 * 8] = 1;
  problem.rows[9 * 8] = 2;
  problem.log_weights[8] = std::log(2.0f);
  problem.log_weights[9] = 0;
  int far = 0;
  for (int seed = 0; seed < kDraws; ++seed) {
    const Spread spread = problem.Run(&SpreadKeys, 9, 16, seed);
    ASSERT_GE(spread.centres[8], 8);
    far += spread.centres[8] == 9;
  }
  // 1 * 2^2 beside 2 * 1^2: two thirds, with a standard error of 0.0075.
  EXPECT_NEAR(far / static_cast<double>(kDraws), 2.0 / 3, 0.03);
}

}  // namespace
}  // namespace chorale::kernels
