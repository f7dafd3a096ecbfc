// Weighted means of keys and values against the float64 reference.
#include "kernels/ops/merge_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Tolerance kTight{1e-7, 1e-6};

struct Merged {
  std::vector<float> keys, values, log_weights;
};

// Key j is in group 7 j mod groups.
struct Problem {
  int64_t n = 0;
  int64_t head_dim = 0;
  int64_t groups = 0;
  std::vector<float> keys, values, log_weights;
  std::vector<int32_t> member, group_begin;

  Problem(int64_t n, int64_t head_dim, int64_t groups, uint32_t seed)
      : n(n),
        head_dim(head_dim),
        groups(groups),
        keys(RandomTensor(PackedKeysSize(n, head_dim), seed)),
        values(RandomTensor(n * head_dim, seed + 1)),
        log_weights(RandomTensor(n, seed + 2)) {
    for (int64_t g = 0; g < groups; ++g) {
      group_begin.push_back(static_cast<int32_t>(member.size()));
      for (int64_t j = 0; j < n; ++j) {
        if (7 * j % groups == g) member.push_back(static_cast<int32_t>(j));
      }
    }
    group_begin.push_back(static_cast<int32_t>(member.size()));
  }

  // In calls of `step` groups.
  Merged Run(void (*merge_keys)(const MergeKeysParams&), int64_t step) const {
    Merged merged = {.keys = std::vector<float>(PackedKeysSize(groups, head_dim), kNan),
                     .values = std::vector<float>(groups * head_dim, kNan),
                     .log_weights = std::vector<float>(groups, kNan)};
    MergeKeysParams p;
    p.keys = keys.data();
    p.values = values.data();
    p.log_weights = log_weights.empty() ? nullptr : log_weights.data();
    p.member = member.data();
    p.group_begin = group_begin.data();
    p.out_keys = merged.keys.data();
    p.out_values = merged.values.data();
    p.out_log_weights = merged.log_weights.data();
    p.n = n;
    p.head_dim = head_dim;
    p.groups = groups;
    for (p.first_group = 0; p.first_group < groups; p.first_group += step) {
      p.end_group = std::min(p.first_group + step, groups);
      EXPECT_TRUE(ValidateMergeKeys(p).ok()) << ValidateMergeKeys(p);
      merge_keys(p);
    }
    return merged;
  }
};

void ExpectAgreesWithReference(const Problem& problem, int64_t step) {
  const Merged expected = problem.Run(&reference::MergeKeys, problem.groups);
  const Merged actual = problem.Run(&MergeKeys, step);
  EXPECT_THAT(actual.keys, TensorNear(expected.keys, kTight));  // and so is its padding
  EXPECT_THAT(actual.values, TensorNear(expected.values, kTight));
  EXPECT_THAT(actual.log_weights, TensorNear(expected.log_weights, kTight));
}

TEST(MergeKeysTest, AgreesWithReference) {
  for (int64_t head_dim : {8, 16, 32, 64, 128}) {
    for (int64_t groups : {1, 5, 16, 33}) {
      for (int64_t step : {1, 16, 100}) {
        SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", " << groups << " groups");
        ExpectAgreesWithReference(Problem(100, head_dim, groups, 1), step);
      }
    }
  }
  Problem unweighted(100, 16, 9, 2);
  unweighted.log_weights.clear();
  ExpectAgreesWithReference(unweighted, 4);
}

// Two keys of weights 1 and 3: 8/4 + 16 * 3/4 = 14.
TEST(MergeKeysTest, NumbersWorkedOutByHand) {
  Problem problem(2, 8, 1, 3);
  problem.log_weights = {0.0f, std::log(3.0f)};
  problem.keys[0] = problem.values[0] = 8;
  problem.keys[1] = problem.values[8] = 16;
  const Merged merged = problem.Run(&MergeKeys, 1);
  EXPECT_NEAR(merged.keys[0], 14, 1e-5);
  EXPECT_NEAR(merged.values[0], 14, 1e-5);
  EXPECT_NEAR(merged.log_weights[0], std::log(4.0), 1e-6);
}

TEST(MergeKeysTest, AGroupOfOneKeyIsACopy) {
  Problem problem(40, 16, 40, 4);
  problem.log_weights[5] = 13.7f;
  const Merged merged = problem.Run(&MergeKeys, 40);
  for (int64_t g = 0; g < 40; ++g) {
    const int32_t key = problem.member[g];
    EXPECT_EQ(merged.log_weights[g], problem.log_weights[key]);
    for (int64_t d = 0; d < 16; ++d) {
      EXPECT_EQ(merged.values[g * 16 + d], problem.values[key * 16 + d]);
      EXPECT_EQ(merged.keys[((g / kPanel) * 16 + d) * kPanel + g % kPanel],
                problem.keys[((key / kPanel) * 16 + d) * kPanel + key % kPanel]);
    }
  }
}

TEST(MergeKeysTest, HugeAndTinyWeights) {
  Problem problem(100, 16, 9, 5);
  for (float& number : problem.log_weights) number *= 100;
  ExpectAgreesWithReference(problem, 4);
  // Beyond what the reference can represent: the heaviest key is the mean.
  for (float& number : problem.log_weights) number *= 100;
  const Merged merged = problem.Run(&MergeKeys, 9);
  for (int64_t g = 0; g < 9; ++g) {
    const auto heaviest = *std::max_element(
        problem.member.begin() + problem.group_begin[g],
        problem.member.begin() + problem.group_begin[g + 1],
        [&](int32_t a, int32_t b) { return problem.log_weights[a] < problem.log_weights[b]; });
    EXPECT_EQ(merged.values[g * 16], problem.values[heaviest * 16]);
    EXPECT_EQ(merged.log_weights[g], problem.log_weights[heaviest]);
  }
}

TEST(MergeKeysTest, KeysOfNoGroupChangeNothing) {
  Problem problem(60, 16, 5, 6);
  const Merged expected = problem.Run(&MergeKeys, 4);
  Problem poisoned(70, 16, 5, 6);
  poisoned.member = problem.member;
  poisoned.group_begin = problem.group_begin;
  std::fill(poisoned.keys.begin(), poisoned.keys.end(), kNan);
  std::fill(poisoned.values.begin(), poisoned.values.end(), kNan);
  std::fill(poisoned.log_weights.begin(), poisoned.log_weights.end(), kNan);
  for (int64_t key = 0; key < 60; ++key) {
    for (int64_t d = 0; d < 16; ++d) {
      const int64_t at = ((key / kPanel) * 16 + d) * kPanel + key % kPanel;
      poisoned.keys[at] = problem.keys[at];
      poisoned.values[key * 16 + d] = problem.values[key * 16 + d];
    }
    poisoned.log_weights[key] = problem.log_weights[key];
  }
  const Merged actual = poisoned.Run(&MergeKeys, 4);
  EXPECT_THAT(actual.keys, TensorNear(expected.keys, Tolerance{}));
  EXPECT_THAT(actual.values, TensorBitsEqual(expected.values));
  EXPECT_THAT(actual.log_weights, TensorBitsEqual(expected.log_weights));
}

}  // namespace
}  // namespace chorale::kernels
