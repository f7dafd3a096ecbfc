#include "engine/session/path_rows.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops/random.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int32_t> Part(const std::vector<int32_t>& orders, int64_t path, int64_t begin,
                          int64_t end, int64_t length) {
  return {orders.begin() + path * length + begin, orders.begin() + path * length + end};
}

TEST(PathRowsTest, WithoutKnownRowsTheOrderIsThatOfTheQueryRows) {
  const PathRows rows({}, 3);
  EXPECT_EQ(rows.known(), 0);
  EXPECT_EQ(rows.unknown(), 3);
  EXPECT_THAT(rows.GivenOrder(2), IsEmpty());
  EXPECT_THAT(rows.PredictionOrders(1, 2), ElementsAre(1, 2));
  for (int32_t row = 0; row < 3; ++row) EXPECT_EQ(rows.UnknownIndex(row), row);
}

TEST(PathRowsTest, KnownRowsComeFirstInTheirOrder) {
  const PathRows rows({3, 1}, 5);
  EXPECT_EQ(rows.known(), 2);
  EXPECT_EQ(rows.unknown(), 3);
  EXPECT_THAT(rows.unknown_rows(), ElementsAre(0, 2, 4));
  EXPECT_EQ(rows.UnknownIndex(0), 0);
  EXPECT_EQ(rows.UnknownIndex(2), 1);
  EXPECT_EQ(rows.UnknownIndex(4), 2);
  EXPECT_THAT(rows.GivenOrder(2), ElementsAre(3, 1, 0, 2, 4, 3, 1, 0, 2, 4));
  EXPECT_THAT(rows.PredictionOrders(1, 2), ElementsAre(3, 1, 2, 3, 1, 4));
}

TEST(PathRowsTest, TheFirstRowsNeedNoOrder) {
  EXPECT_THAT(PathRows({0, 1}, 4).GivenOrder(3), IsEmpty());
  EXPECT_THAT(PathRows({1, 0}, 3).GivenOrder(1), ElementsAre(1, 0, 2));
}

TEST(PathRowsTest, EveryPathHasItsOwnPermutationWhereverTilesBegin) {
  const PathRows rows({}, 7);
  const auto all = rows.RandomOrders(5, 0, 10);
  EXPECT_EQ(rows.RandomOrders(5, 4, 3), std::vector<int32_t>(all.begin() + 28, all.begin() + 49));
  for (int64_t p = 0; p < 10; ++p) {
    std::vector<int32_t> expected(7);
    kernels::DrawOrder(5, p, 7, expected.data());
    EXPECT_EQ(Part(all, p, 0, 7, 7), expected);
  }
}

TEST(PathRowsTest, OnlyTheOtherRowsHaveARandomOrder) {
  const PathRows rows({3, 1}, 6);
  const auto orders = rows.RandomOrders(5, 2, 20);
  bool differ = false;
  for (int64_t p = 0; p < 20; ++p) {
    EXPECT_THAT(Part(orders, p, 0, 2, 6), ElementsAre(3, 1));
    auto others = Part(orders, p, 2, 6, 6);
    differ |= others != Part(orders, 0, 2, 6, 6);
    std::sort(others.begin(), others.end());
    EXPECT_THAT(others, ElementsAre(0, 2, 4, 5));
  }
  EXPECT_TRUE(differ);
}

}  // namespace
}  // namespace chorale
