// Centres against the float64 reference, and where distances and weights are extreme.
#include "kernels/cuda/memory_set/spread_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "tests/kernels/cuda/memory_set/memory_problem.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

constexpr uint64_t kSeed = 5;
constexpr uint32_t kStream = 6;

struct Spread {
  std::vector<int32_t> centres, nearest;  // [Hkv, centres] and [Hkv, n]
  std::vector<float> distance;            // [Hkv, n]
};

class SpreadKeysTest : public DeviceTest {
 protected:
  // In calls of `step` centres. Arrays are invalid before the first call.
  Spread Run(MemoryProblem& problem, int count, int step) {
    problem.Upload();
    const int64_t heads = problem.shape().kv_heads;
    const size_t all = heads * problem.n();
    const DeviceArray<double> weight(all);
    const DeviceArray<float> distance(all);
    const DeviceArray<int32_t> nearest(all), centres(heads * count);
    const DeviceArray<SpreadCandidate> candidates(SpreadCandidates(heads));
    SpreadKeysParams params = {.keys = problem.keys(),
                               .weight = weight.data(),
                               .distance = distance.data(),
                               .nearest = nearest.data(),
                               .centres = centres.data(),
                               .candidates = candidates.data(),
                               .centre_count = count,
                               .seed = kSeed,
                               .first_stream = kStream,
                               .shape = problem.shape()};
    for (; params.first_centre < count; params.first_centre += step) {
      params.end_centre = std::min(params.first_centre + step, count);
      EXPECT_TRUE(ValidateSpreadKeys(params).ok()) << ValidateSpreadKeys(params);
      ExpectSuccess(LaunchSpreadKeys(params, stream_), "launching");
    }
    return {centres.ToHost(stream_), nearest.ToHost(stream_), distance.ToHost(stream_)};
  }

  static Spread Reference(const MemoryProblem& problem, int count) {
    Spread spread;
    for (int head = 0; head < problem.shape().kv_heads; ++head) {
      HeadKeys keys = problem.Head(head);
      const int64_t padded = RoundUp(problem.n(), kPanel);
      std::vector<float> distance(padded);
      std::vector<int32_t> nearest(padded), centres(count);
      std::vector<double> weight(padded);
      reference::SpreadKeys({.keys = keys.keys.data(),
                             .log_weights = keys.log_weights.data(),
                             .weight = weight.data(),
                             .distance = distance.data(),
                             .nearest = nearest.data(),
                             .centres = centres.data(),
                             .n = problem.n(),
                             .head_dim = problem.shape().head_dim,
                             .centre_count = count,
                             .end_centre = count,
                             .seed = kSeed,
                             .stream = kStream + static_cast<uint32_t>(head)});
      spread.centres.insert(spread.centres.end(), centres.begin(), centres.end());
      spread.nearest.insert(spread.nearest.end(), nearest.begin(), nearest.begin() + problem.n());
      spread.distance.insert(spread.distance.end(), distance.begin(),
                             distance.begin() + problem.n());
    }
    return spread;
  }

  // Centres are distinct keys, and join themselves; each other key joins a centre.
  static void ExpectValid(const MemoryProblem& problem, const Spread& spread, int count) {
    const int n = problem.n();
    for (int head = 0; head < problem.shape().kv_heads; ++head) {
      const auto centres = spread.centres.begin() + head * count;
      EXPECT_EQ(std::set<int32_t>(centres, centres + count).size(), static_cast<size_t>(count));
      for (int c = 0; c < count; ++c) {
        ASSERT_GE(centres[c], 0);
        ASSERT_LT(centres[c], n);
        EXPECT_EQ(spread.nearest[head * n + centres[c]], c);
        EXPECT_EQ(spread.distance[head * n + centres[c]], -1);
      }
      for (int key = 0; key < n; ++key) {
        EXPECT_GE(spread.nearest[head * n + key], 0);
        EXPECT_LT(spread.nearest[head * n + key], count);
        EXPECT_TRUE(std::isfinite(spread.distance[head * n + key]));
      }
    }
  }
};

TEST_F(SpreadKeysTest, AgreesWithReference) {
  for (const int head_dim : {16, 32, 64, 128}) {
    for (const auto& [set_keys, rows, count] : std::vector<std::array<int, 3>>{
             {0, 1, 1}, {0, 100, 64}, {70, 300, 70}, {64, 400, 70}, {1, 20, 21}}) {
      SCOPED_TRACE(testing::Message()
                   << "Dh " << head_dim << ", " << count << " of " << set_keys << " and " << rows);
      MemoryProblem problem({.set_keys = set_keys,
                             .segment_rows = rows,
                             .shape = {.heads = 4, .kv_heads = 2, .head_dim = head_dim}},
                            1);
      const Spread actual = Run(problem, count, 1'024);
      const Spread expected = Reference(problem, count);
      EXPECT_EQ(actual.centres, expected.centres);
      EXPECT_EQ(actual.nearest, expected.nearest);
      EXPECT_THAT(actual.distance, TensorNear(expected.distance, Tolerance{0, 2e-6}));
      ExpectValid(problem, actual, count);
    }
  }
}

// As many keys as need several passes of a block: more than the blocks' threads.
TEST_F(SpreadKeysTest, ManyKeys) {
  MemoryProblem problem({.set_keys = 300,
                         .segment_rows = 9'000,
                         .shape = {.heads = 1, .kv_heads = 1, .head_dim = 16}},
                        2);
  ASSERT_GT(SpreadBlockKeys(problem.n()), kSpreadThreads);
  const Spread actual = Run(problem, 20, 8);
  const Spread expected = Reference(problem, 20);
  EXPECT_EQ(actual.centres, expected.centres);
  EXPECT_EQ(actual.nearest, expected.nearest);
}

TEST_F(SpreadKeysTest, AnyDivisionIntoCallsHasTheSameBits) {
  MemoryProblem problem({.set_keys = 65, .segment_rows = 200}, 3);
  const Spread at_once = Run(problem, 65, 72);
  for (const int step : {8, 24}) {
    const Spread stepwise = Run(problem, 65, step);
    EXPECT_EQ(stepwise.centres, at_once.centres) << step;
    EXPECT_EQ(stepwise.nearest, at_once.nearest) << step;
    EXPECT_THAT(stepwise.distance, TensorBitsEqual(at_once.distance)) << step;
  }
}

// Many keys in each of six places: after the first group, places without a centre come first, so
// that every key joins a centre of its place.
TEST_F(SpreadKeysTest, Duplicates) {
  MemoryProblem problem({.segment_rows = 120}, 4);
  const int width = problem.shape().head_dim;
  for (size_t i = 0; i < problem.all.k.size(); ++i) {
    problem.all.k[i] = problem.all.k[i / width % 6 * width + i % width];
  }
  for (const int count : {32, 45, 120}) {
    const Spread spread = Run(problem, count, 1'024);
    ExpectValid(problem, spread, count);
    for (int key = 0; key < problem.n(); ++key) {
      EXPECT_EQ(spread.centres[spread.nearest[key]] % 6, key % 6) << key;
    }
  }
}

TEST_F(SpreadKeysTest, HugeAndTinyKeysAndWeights) {
  for (const float scale : {1e30f, 1e19f, 1e-20f, 1e-38f}) {
    for (const float largest : {0.0f, 100.0f, 1000.0f}) {
      SCOPED_TRACE(testing::Message() << scale << " " << largest);
      MemoryProblem problem({.set_keys = 64, .segment_rows = 26, .largest_log_weight = largest}, 5);
      for (float& number : problem.all.k) number *= scale;
      ExpectValid(problem, Run(problem, 40, 1'024), 40);
      ExpectValid(problem, Run(problem, 90, 1'024), 90);
    }
  }
}

TEST_F(SpreadKeysTest, InvalidParametersAreRefused) {
  MemoryProblem problem({.segment_rows = 20}, 6);
  problem.Upload();
  double weight = 0;
  float distance = 0;
  int32_t index = 0;
  SpreadCandidate candidate;
  const SpreadKeysParams valid = {.keys = problem.keys(),
                                  .weight = &weight,
                                  .distance = &distance,
                                  .nearest = &index,
                                  .centres = &index,
                                  .candidates = &candidate,
                                  .centre_count = 20,
                                  .end_centre = 8,
                                  .shape = problem.shape()};
  EXPECT_TRUE(ValidateSpreadKeys(valid).ok());
  SpreadKeysParams p = valid;
  p.centre_count = 21;
  EXPECT_FALSE(ValidateSpreadKeys(p).ok());
  p = valid;
  p.first_centre = 4;
  EXPECT_FALSE(ValidateSpreadKeys(p).ok());
  p = valid;
  p.end_centre = 9;
  EXPECT_FALSE(ValidateSpreadKeys(p).ok());
  p = valid;
  p.candidates = nullptr;
  EXPECT_FALSE(ValidateSpreadKeys(p).ok());
  p = valid;
  p.shape.head_dim = 8;
  EXPECT_FALSE(ValidateSpreadKeys(p).ok());
}

}  // namespace
}  // namespace chorale::kernels::cuda
