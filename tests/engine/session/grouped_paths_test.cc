#include "engine/session/grouped_paths.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/session/query_groups.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops/random.h"
#include "tests/engine/engine_fixture.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SampleRequest RequestOf(int64_t rows, std::vector<int32_t> known, std::vector<int32_t> sizes = {}) {
  SampleRequest request;
  request.query_rows = testing::MakeTargets(rows);
  request.known.values.resize(known.size());
  request.known.rows = std::move(known);
  request.group_sizes = std::move(sizes);
  return request;
}

std::vector<std::pair<int64_t, int64_t>> LengthsOf(const std::vector<EqualPaths>& lengths) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const EqualPaths& length : lengths) pairs.emplace_back(length.positions, length.paths);
  return pairs;
}

std::vector<int32_t> Part(const std::vector<int32_t>& orders, int64_t path, int64_t begin,
                          int64_t end, int64_t length) {
  return {orders.begin() + path * length + begin, orders.begin() + path * length + end};
}

TEST(QueryGroupsTest, WithoutGroupsAllRowsBelongTogether) {
  const SampleRequest request = RequestOf(3, {});
  const QueryGroups groups(request);
  EXPECT_EQ(groups.count(), 1);
  EXPECT_EQ(groups.unknown(), 3);
  EXPECT_EQ(groups.known(0), 0);
  EXPECT_THAT(groups.rows(0), ElementsAre(0, 1, 2));
  EXPECT_TRUE(groups.in_order());
  for (int32_t row = 0; row < 3; ++row) EXPECT_EQ(groups.UnknownIndex(row), row);
}

TEST(QueryGroupsTest, KnownRowsComeFirstInTheirOrder) {
  SampleRequest request = RequestOf(5, {3, 1});
  request.known.values = {10, 11, 20, 21};
  const QueryGroups groups(request);
  EXPECT_EQ(groups.known(0), 2);
  EXPECT_EQ(groups.unknown(), 3);
  EXPECT_THAT(groups.rows(0), ElementsAre(3, 1, 0, 2, 4));
  EXPECT_EQ(groups.UnknownIndex(0), 0);
  EXPECT_EQ(groups.UnknownIndex(2), 1);
  EXPECT_EQ(groups.UnknownIndex(4), 2);
  EXPECT_FALSE(groups.in_order());
  EXPECT_EQ(groups.KnownValue(0, 0, 1), 11);
  EXPECT_EQ(groups.KnownValue(0, 1, 0), 20);
}

TEST(QueryGroupsTest, TheFirstRowsKeepTheirOrder) {
  const SampleRequest first = RequestOf(4, {0, 1});
  EXPECT_TRUE(QueryGroups(first).in_order());
  const SampleRequest swapped = RequestOf(3, {1, 0});
  EXPECT_FALSE(QueryGroups(swapped).in_order());
}

TEST(QueryGroupsTest, EachGroupHasItsOwnRowsAndKnownValues) {
  SampleRequest request = RequestOf(9, {6, 2, 4}, {3, 2, 4});
  request.known.values = {60, 20, 40, 61, 21, 41};
  const QueryGroups groups(request);
  ASSERT_EQ(groups.count(), 3);
  EXPECT_THAT(groups.rows(0), ElementsAre(2, 0, 1));
  EXPECT_THAT(groups.rows(1), ElementsAre(4, 3));
  EXPECT_THAT(groups.rows(2), ElementsAre(6, 5, 7, 8));
  EXPECT_EQ(groups.positions(2), 4);
  EXPECT_EQ(groups.known(2), 1);
  EXPECT_EQ(groups.unknown(), 6);
  EXPECT_EQ(groups.UnknownIndex(3), 2);
  EXPECT_EQ(groups.UnknownIndex(8), 5);
  EXPECT_EQ(groups.GroupOf(4), 1);
  EXPECT_EQ(groups.KnownValue(0, 1, 0), 21);
  EXPECT_EQ(groups.KnownValue(1, 0, 0), 40);
  EXPECT_EQ(groups.KnownValue(2, 1, 0), 61);
  EXPECT_FALSE(groups.in_order());
}

TEST(GroupedPathsTest, WithoutGroupsThePathsAreInTheirOrder) {
  const SampleRequest request = RequestOf(5, {3, 1});
  const QueryGroups groups(request);
  const GroupedPaths paths(&groups, 4);
  EXPECT_THAT(LengthsOf(paths.lengths()), ElementsAre(std::pair(5, 4)));
  EXPECT_THAT(paths.GivenOrder(1, 2), ElementsAre(3, 1, 0, 2, 4, 3, 1, 0, 2, 4));
  EXPECT_THAT(paths.Numbers(1, 3, Sampling::kIndependent), ElementsAre(1, 2, 3));
  const SampleRequest in_order = RequestOf(4, {0, 1});
  const QueryGroups in_order_groups(in_order);
  EXPECT_THAT(GroupedPaths(&in_order_groups, 3).GivenOrder(0, 3), IsEmpty());
}

// The groups have 2, 3, 2, 3 and 2 rows; the last one has a known value.
TEST(GroupedPathsTest, EqualGroupsFollowEachOther) {
  const SampleRequest request = RequestOf(12, {10}, {2, 3, 2, 3, 2});
  const QueryGroups groups(request);
  const GroupedPaths paths(&groups, 3);
  EXPECT_THAT(LengthsOf(paths.lengths()),
              ElementsAre(std::pair(2, 6), std::pair(3, 6), std::pair(2, 3)));
  std::vector<std::pair<int64_t, int64_t>> sequence;
  for (int64_t i = 0; i < 15; ++i) {
    const auto [group, path] = paths.At(i);
    sequence.emplace_back(group, path);
  }
  EXPECT_THAT(sequence,
              ElementsAre(std::pair(0, 0), std::pair(2, 0), std::pair(0, 1), std::pair(2, 1),
                          std::pair(0, 2), std::pair(2, 2), std::pair(1, 0), std::pair(3, 0),
                          std::pair(1, 1), std::pair(3, 1), std::pair(1, 2), std::pair(3, 2),
                          std::pair(4, 0), std::pair(4, 1), std::pair(4, 2)));
  EXPECT_THAT(paths.GivenOrder(1, 2), ElementsAre(5, 6, 0, 1));
  EXPECT_THAT(paths.GivenOrder(12, 1), ElementsAre(10, 11));
  constexpr uint64_t kGroup = uint64_t{1} << 32;
  EXPECT_THAT(paths.Numbers(5, 2, Sampling::kIndependent), ElementsAre(2 * kGroup + 2, kGroup));
  EXPECT_THAT(paths.Numbers(5, 2, Sampling::kSobol),
              ElementsAre(kernels::kSobolFlag | (2 * kGroup + 2), kernels::kSobolFlag | kGroup));
}

// The groups have 2, 3 and 2 rows.
TEST(GroupedPathsTest, RoundsFollowEachOther) {
  const SampleRequest request = RequestOf(7, {}, {2, 3, 2});
  const QueryGroups groups(request);
  const GroupedPaths paths(&groups, {2, 3}, 10);
  EXPECT_EQ(paths.lengths_per_round(), 2);
  EXPECT_THAT(LengthsOf(paths.lengths()),
              ElementsAre(std::pair(2, 4), std::pair(3, 2), std::pair(2, 2), std::pair(3, 1)));
  std::vector<std::pair<int64_t, int64_t>> sequence;
  for (int64_t i = 0; i < 9; ++i) {
    const auto [group, path] = paths.At(i);
    sequence.emplace_back(group, path);
  }
  EXPECT_THAT(sequence, ElementsAre(std::pair(0, 0), std::pair(2, 0), std::pair(0, 1),
                                    std::pair(2, 1), std::pair(1, 0), std::pair(1, 1),
                                    std::pair(0, 2), std::pair(2, 2), std::pair(1, 2)));
  constexpr uint64_t kGroup = uint64_t{1} << 32;
  EXPECT_THAT(paths.Numbers(7, 2, Sampling::kIndependent),
              ElementsAre(2 * kGroup + 12, kGroup + 12));
}

TEST(GroupedPathsTest, EveryPathHasItsOwnPermutationWhereverTilesBegin) {
  const SampleRequest request = RequestOf(7, {});
  const QueryGroups groups(request);
  const GroupedPaths paths(&groups, 10);
  const auto all = paths.RandomOrders(5, 0, 10);
  EXPECT_EQ(paths.RandomOrders(5, 4, 3), std::vector<int32_t>(all.begin() + 28, all.begin() + 49));
  for (int64_t p = 0; p < 10; ++p) {
    std::vector<int32_t> expected(7);
    kernels::DrawOrder(5, p, 7, expected.data());
    EXPECT_EQ(Part(all, p, 0, 7, 7), expected);
  }
}

TEST(GroupedPathsTest, EverySecondOrderOfAVectorIsTheOneBeforeItReversed) {
  const SampleRequest request = RequestOf(7, {2});
  const QueryGroups groups(request);
  const GroupedPaths paths(&groups, 15);
  const auto single = paths.RandomOrders(5, 0, 15);
  const auto of_vectors = paths.RandomOrders(5, 0, 15, 5);
  EXPECT_EQ(paths.RandomOrders(5, 6, 4, 5), Part(of_vectors, 0, 42, 70, 105));
  for (int64_t p = 0; p < 15; ++p) {
    const bool reversed = p % 5 == 1 || p % 5 == 3;
    std::vector<int32_t> expected = Part(single, reversed ? p - 1 : p, 0, 7, 7);
    if (reversed) std::reverse(expected.begin() + 1, expected.end());
    EXPECT_EQ(Part(of_vectors, p, 0, 7, 7), expected) << p;
    EXPECT_EQ(expected.front(), 2) << "the known row";
  }
}

TEST(GroupedPathsTest, OnlyTheOtherRowsOfAGroupHaveARandomOrder) {
  const SampleRequest request = RequestOf(12, {9, 7, 3, 1}, {6, 6});
  const QueryGroups groups(request);
  const GroupedPaths paths(&groups, 20);
  const auto orders = paths.RandomOrders(5, 0, 40);
  std::set<std::vector<int32_t>> distinct;
  for (int64_t p = 0; p < 40; ++p) {
    const bool second = p % 2 == 1;
    EXPECT_EQ(Part(orders, p, 0, 2, 6), (second ? std::vector{9, 7} : std::vector{3, 1}));
    std::vector<int32_t> others = Part(orders, p, 2, 6, 6);
    for (int32_t& row : others) row -= second ? 6 : 0;
    distinct.insert(others);
    std::sort(others.begin(), others.end());
    EXPECT_THAT(others, ElementsAre(0, 2, 4, 5));
  }
  EXPECT_GT(distinct.size(), 12u) << "of 24";
}

// More groups at the end, and more paths, change no order and no number.
TEST(GroupedPathsTest, APathDoesNotDependOnTheOthers) {
  using Path = std::tuple<int64_t, int64_t, uint64_t, std::vector<int32_t>>;
  const auto paths_of = [](const SampleRequest& request, int64_t count) {
    const QueryGroups groups(request);
    const GroupedPaths paths(&groups, count);
    std::set<Path> all;
    for (int64_t i = 0; i < groups.count() * count; ++i) {
      const auto [group, path] = paths.At(i);
      all.insert({group, path, paths.Numbers(i, 1, Sampling::kIndependent)[0],
                  paths.RandomOrders(3, i, 1)});
    }
    return all;
  };
  const std::set<Path> few = paths_of(RequestOf(5, {4}, {2, 3}), 4);
  const std::set<Path> more = paths_of(RequestOf(12, {4}, {2, 3, 2, 3, 2}), 6);
  EXPECT_EQ(few.size(), 8u);
  EXPECT_EQ(more.size(), 30u);
  for (const Path& path : few) EXPECT_EQ(more.count(path), 1u);
}

TEST(GroupedPathsTest, PredictionsFollowTheNumberOfKnownValues) {
  const SampleRequest request = RequestOf(7, {5, 4, 0}, {2, 1, 4});
  const QueryGroups groups(request);
  const std::vector<int32_t> rows = PredictedRows(groups);
  EXPECT_THAT(rows, ElementsAre(2, 1, 3, 6));
  EXPECT_THAT(LengthsOf(PredictionLengths(groups, rows)),
              ElementsAre(std::pair(1, 1), std::pair(2, 1), std::pair(3, 2)));
  const SampleRequest none_known = RequestOf(4, {}, {1, 3});
  const QueryGroups marginal(none_known);
  EXPECT_THAT(PredictedRows(marginal), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(LengthsOf(PredictionLengths(marginal, {0, 1, 2, 3})), ElementsAre(std::pair(1, 4)));
}

}  // namespace
}  // namespace chorale
