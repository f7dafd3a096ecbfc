// The choice of the keys of a memory set.
#include "engine/backend/host/choose_keys.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Keys {
  std::vector<double> importance;
  std::vector<float> log_weights = {};
  std::vector<int32_t> rows = {};

  KeysToChooseFrom View() {
    log_weights.resize(importance.size());
    if (rows.empty()) {
      rows.resize(importance.size());
      std::iota(rows.begin(), rows.end(), 0);
    }
    return {.importance = importance, .log_weights = log_weights, .rows = rows};
  }
};

TEST(GroupByCentreTest, KeysOfAGroupAreInTheirOrder) {
  const KeyGroups groups = GroupByCentre({2, 0, 2, 1, 0, 2}, 3);
  EXPECT_EQ(groups.groups(), 3);
  EXPECT_THAT(groups.member, ElementsAre(1, 4, 3, 0, 2, 5));
  EXPECT_THAT(groups.group_begin, ElementsAre(0, 2, 3, 6));
  EXPECT_TRUE(groups.log_weights.empty());
}

TEST(KeepAllKeysTest, EachKeyIsAGroup) {
  const KeyGroups groups = KeepAllKeys(3);
  EXPECT_THAT(groups.member, ElementsAre(0, 1, 2));
  EXPECT_THAT(groups.group_begin, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(groups.log_weights.empty());
}

TEST(KeepHeaviestTest, LargestImportanceWithWeightsOfOne) {
  Keys keys = {.importance = {1, 5, 3, 4, 2}, .log_weights = {9, 9, 9, 9, 9}};
  const KeyGroups groups = KeepHeaviest(keys.View(), 3);
  EXPECT_THAT(groups.member, ElementsAre(1, 2, 3));
  EXPECT_THAT(groups.log_weights, ElementsAre(0, 0, 0));
  EXPECT_EQ(KeepHeaviest(keys.View(), 5).groups(), 5);
}

TEST(KeepHeaviestTest, OfEqualKeysThoseOfSmallerRows) {
  Keys keys = {.importance = {1, 1, 2, 1, 1}, .rows = {40, 10, 50, 30, 20}};
  EXPECT_THAT(KeepHeaviest(keys.View(), 3).member, ElementsAre(1, 2, 4));
  keys.importance.assign(5, 0);
  EXPECT_THAT(KeepHeaviest(keys.View(), 2).member, ElementsAre(1, 4));
}

TEST(KeepHeaviestTest, NanIsNothingAndInfinitiesAreEqual) {
  Keys keys = {.importance = {kNan, kInfinity, 1, kNan, kInfinity, -1, 1e308}};
  EXPECT_THAT(KeepHeaviest(keys.View(), 4).member, ElementsAre(1, 2, 4, 6));
  keys.importance.assign(7, kNan);
  EXPECT_THAT(KeepHeaviest(keys.View(), 2).member, ElementsAre(0, 1));
}

// Numbers of any kind yield distinct keys with finite weights.
TEST(SampleKeysTest, ExtremeImportanceAndWeights) {
  const auto expect_valid = [](Keys keys) {
    const auto n = static_cast<int64_t>(keys.importance.size());
    for (int64_t count = 1; count <= n; ++count) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const KeyGroups groups = SampleKeys(keys.View(), count, seed, 3);
        ASSERT_EQ(groups.groups(), count);
        for (int64_t i = 1; i < count; ++i) ASSERT_LT(groups.member[i - 1], groups.member[i]);
        ASSERT_GE(groups.member.front(), 0);
        ASSERT_LT(groups.member.back(), n);
        for (size_t i = 0; i < groups.log_weights.size(); ++i) {
          ASSERT_TRUE(std::isfinite(groups.log_weights[i]));
          ASSERT_GE(groups.log_weights[i], keys.log_weights[groups.member[i]]);
        }
      }
    }
  };
  expect_valid({.importance = {0, 0, 0, 0, 0}});
  expect_valid({.importance = {kNan, kNan, kNan}});
  expect_valid({.importance = {kInfinity, kNan, 0, 1e-300, kInfinity, 3}});
  expect_valid({.importance = {1e308, 1e308, 1e-308, 0}, .log_weights = {80, -80, 0, -80}});
  expect_valid({.importance = {1, 2, 3, 4}, .log_weights = {1000, -1000, 0, -1000}});
  expect_valid({.importance = {7}});
}

TEST(SampleKeysTest, AllKeysKeepTheirWeights) {
  Keys keys = {.importance = {1, 2, 3}, .log_weights = {1, 2, 3}};
  const KeyGroups groups = SampleKeys(keys.View(), 3, 1, 1);
  EXPECT_THAT(groups.member, ElementsAre(0, 1, 2));
  EXPECT_TRUE(groups.log_weights.empty());
}

// Over many draws, the weight that a key has, 0 where it is not kept, is its former weight on
// average; and important keys are kept more often.
TEST(SampleKeysTest, WeightsAreKeptOnAverage) {
  constexpr int kDraws = 20'000;
  constexpr size_t kKeys = 12;
  Keys keys;
  for (size_t j = 0; j < kKeys; ++j) {
    keys.importance.push_back(j * j);
    keys.log_weights.push_back(static_cast<float>(std::log(1.0 + j % 3)));
  }
  std::vector<double> sum(kKeys), squares(kKeys), kept(kKeys);
  for (int seed = 0; seed < kDraws; ++seed) {
    const KeyGroups groups = SampleKeys(keys.View(), 5, seed, 7);
    for (int64_t i = 0; i < groups.groups(); ++i) {
      const double weight = std::exp(groups.log_weights[i]);
      sum[groups.member[i]] += weight;
      squares[groups.member[i]] += weight * weight;
      kept[groups.member[i]] += 1;
    }
  }
  for (size_t j = 0; j < kKeys; ++j) {
    const double mean = sum[j] / kDraws;
    const double error = std::sqrt((squares[j] / kDraws - mean * mean) / kDraws);
    EXPECT_NEAR(mean, 1.0 + j % 3, 5 * error) << j;
  }
  EXPECT_GT(kept[11], 3 * kept[1]);
  EXPECT_GT(kept[0], 0);  // by weight alone
}

TEST(SampleKeysTest, ADrawIsAFunctionOfSeedAndStream) {
  Keys keys;
  for (int j = 0; j < 100; ++j) keys.importance.push_back(1 + j % 7);
  const KeyGroups groups = SampleKeys(keys.View(), 20, 1, 1);
  EXPECT_EQ(SampleKeys(keys.View(), 20, 1, 1).member, groups.member);
  EXPECT_NE(SampleKeys(keys.View(), 20, 2, 1).member, groups.member);
  EXPECT_NE(SampleKeys(keys.View(), 20, 1, 2).member, groups.member);
}

}  // namespace
}  // namespace chorale
