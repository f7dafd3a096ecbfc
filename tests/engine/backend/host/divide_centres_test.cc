// The division of centres among cells.
#include "engine/backend/host/divide_centres.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> Divide(const std::vector<double>& potential, const std::vector<int32_t>& keys,
                            int64_t count) {
  return DivideCentres(potential, keys, count);
}

TEST(DivideCentresTest, InProportionToThePotential) {
  EXPECT_THAT(Divide({1, 2, 3}, {100, 100, 100}, 3 + 60), ElementsAre(11, 21, 31));
  EXPECT_THAT(Divide({1, 0, 3}, {100, 100, 100}, 3 + 40), ElementsAre(11, 1, 31));
  EXPECT_THAT(Divide({5}, {100}, 40), ElementsAre(40));
}

// Shares of 1.7, 0.6 and 2.7, then of a half for each: the first of equal remainders.
TEST(DivideCentresTest, LargestRemainders) {
  EXPECT_THAT(Divide({17, 6, 27}, {100, 100, 100}, 3 + 5), ElementsAre(3, 1, 4));
  EXPECT_THAT(Divide({1, 1, 1, 1}, {9, 9, 9, 9}, 4 + 2), ElementsAre(2, 2, 1, 1));
}

// The first cell wants 8 of 10 and can get 2; the other 8 are shared anew, so that the second,
// which wanted 1.5, has room for 4 of 6.
TEST(DivideCentresTest, NoCellGetsMoreThanItsKeys) {
  EXPECT_THAT(Divide({80, 15, 5}, {3, 5, 100}, 3 + 10), ElementsAre(3, 5, 5));
  EXPECT_THAT(Divide({80, 15, 5}, {1, 1, 100}, 3 + 10), ElementsAre(1, 1, 11));
  EXPECT_THAT(Divide({1, 2, 3}, {7, 1, 4}, 12), ElementsAre(7, 1, 4));
  EXPECT_THAT(Divide({1, 2, 3}, {7, 1, 4}, 11), ElementsAre(6, 1, 4));
  EXPECT_THAT(Divide({1, 2, 3}, {7, 1, 4}, 3), ElementsAre(1, 1, 1));
}

TEST(DivideCentresTest, WithoutPotentialInProportionToTheKeys) {
  EXPECT_THAT(Divide({0, 0, 0}, {10, 20, 30}, 3 + 12), ElementsAre(3, 5, 7));
  // Also once all cells with a potential are full.
  EXPECT_THAT(Divide({0, 9, 0}, {10, 5, 30}, 3 + 4 + 8), ElementsAre(3, 5, 7));
}

TEST(DivideCentresTest, ExactlyAsManyAsWanted) {
  std::mt19937 random(1);
  for (int i = 0; i < 2'000; ++i) {
    const auto cells = static_cast<size_t>(1 + random() % 40);
    std::vector<double> potential(cells);
    std::vector<int32_t> keys(cells);
    for (size_t c = 0; c < cells; ++c) {
      keys[c] = static_cast<int32_t>(1 + random() % (i % 3 == 0 ? 4 : 300));
      potential[c] = random() % 4 == 0 ? 0.0 : std::pow(10.0, static_cast<int>(random() % 80) - 40);
    }
    const int64_t all = std::accumulate(keys.begin(), keys.end(), int64_t{0});
    const auto least = static_cast<int64_t>(cells);
    for (const int64_t count : {least, (least + all) / 2, all - 1, all}) {
      if (count < least) continue;
      const std::vector<int32_t> centres = Divide(potential, keys, count);
      EXPECT_EQ(std::accumulate(centres.begin(), centres.end(), int64_t{0}), count);
      for (size_t c = 0; c < cells; ++c) {
        EXPECT_GE(centres[c], 1);
        EXPECT_LE(centres[c], keys[c]);
      }
    }
  }
}

TEST(DivideIntoCellsTest, KeysAndPotentials) {
  // Cell 0: keys 0 and 4, of potential 3 * 2; cell 1: keys 1, 2, 3 and 5, of potential 1 + 4 + 1.
  const CentreCells cells =
      DivideIntoCells({0, 1, 1, 1, 0, 1}, {-1, 1, -1, 8, 2, 1}, {9, 1, 9, 0.5, 3, 1}, 2, 4);
  EXPECT_EQ(cells.cells(), 2);
  EXPECT_THAT(cells.member, ElementsAre(0, 4, 1, 2, 3, 5));
  EXPECT_THAT(cells.key_begin, ElementsAre(0, 2, 6));
  EXPECT_THAT(cells.centre_begin, ElementsAre(0, 2, 4));
  EXPECT_EQ(cells.keys(1), 4);
  EXPECT_EQ(cells.centres(1), 2);
  // A centre does not count: were its weight or -1 to, cell 0 would get none of the others.
  const CentreCells more = DivideIntoCells({0, 0, 0, 0, 1, 1, 1, 1}, {-1, 4, 4, 4, -1, 1, 1, 1},
                                           {100, 1, 1, 1, 1, 1, 1, 1}, 2, 2 + 4);
  EXPECT_THAT(more.centre_begin, ElementsAre(0, 4, 6));
}

TEST(DivideCentresDeathTest, BrokenRequirementsStopTheProcess) {
  EXPECT_DEATH(Divide({1, 1}, {5, 0}, 3), "a cell has a key");
  EXPECT_DEATH(Divide({1, 1}, {5, 5}, 1), "the cells have room");
  EXPECT_DEATH(Divide({1, 1}, {5, 5}, 11), "the cells have room");
}

}  // namespace
}  // namespace chorale
