#include "engine/data/bulk.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(BulkTest, ByHand) {
  // Quartiles 2 and 4, median 3: the scale is 2 / 1.349.
  const Bulk bulk = Bulk::Of({3, 1, kNan, 5, 2, 4});
  const double scale = 2 / 1.349;
  EXPECT_FALSE(bulk.all_but_constant());
  for (const double x : {3.0, 1.0, 3 + 7.99 * scale, 3 - 7.99 * scale}) {
    EXPECT_TRUE(bulk.Contains(x)) << x;
    EXPECT_EQ(bulk.Squash(x), x);
  }
  for (const double x : {3 + 8.01 * scale, 999'999.0, -9999.0}) {
    const double z = (x - 3) / scale;
    EXPECT_FALSE(bulk.Contains(x)) << x;
    EXPECT_NEAR(bulk.Squash(x), 3 + std::copysign(scale * (8 + std::log1p(std::abs(z) - 8)), x - 3),
                1e-12);
  }
}

TEST(BulkTest, QuartilesLieBetweenNumbers) {
  // Places 0.75, 1.5 and 2.25 of 0, 1, 2, 10.
  const Bulk bulk = Bulk::Of({10, 0, 2, 1});
  const double scale = (4 - 0.75) / 1.349;
  EXPECT_TRUE(bulk.Contains(1.5 + 7.999 * scale));
  EXPECT_FALSE(bulk.Contains(1.5 + 8.001 * scale));
  EXPECT_FALSE(bulk.Contains(1.5 - 8.001 * scale));
}

TEST(BulkTest, BesideAnAtomTheOthersSetTheScale) {
  // Of -3, 5, 10, 20 and 50 the quartiles are 5 and 20, and the median 10.
  std::vector<double> numbers(100, 0.0);
  for (const double other : {-3.0, 5.0, 10.0, 20.0, 50.0}) {
    numbers[static_cast<size_t>(other) + 3] = other;
  }
  const Bulk bulk = Bulk::Of(numbers);
  const double scale = 15 / 1.349;
  EXPECT_EQ(bulk.atom(), 0);
  EXPECT_DOUBLE_EQ(bulk.scale(), scale);
  EXPECT_FALSE(bulk.all_but_constant());
  for (const double x : {0.0, 7.0, 10.0}) EXPECT_EQ(bulk.Distance(x), 0) << x;
  EXPECT_DOUBLE_EQ(bulk.Distance(-3), 3 / scale);
  EXPECT_DOUBLE_EQ(bulk.Distance(25), 15 / scale);
  EXPECT_TRUE(bulk.Contains(10 + 7.999 * scale));
  EXPECT_FALSE(bulk.Contains(10 + 8.001 * scale));
  EXPECT_FALSE(bulk.Contains(-8.001 * scale));
  EXPECT_NEAR(bulk.Squash(1000), 10 + scale * (8 + std::log1p(990 / scale - 8)), 1e-9);
  EXPECT_NEAR(bulk.Squash(-1000), -scale * (8 + std::log1p(1000 / scale - 8)), 1e-9);
}

// Amounts of 10 to 100 in 5 % of the rows were drawn in, and lost what they say.
TEST(BulkTest, WhatIsRareIsNotFar) {
  std::vector<double> numbers(400, 0.0);
  for (int i = 0; i < 20; ++i) numbers[i * 20] = 10 + 4.5 * i;
  const Bulk bulk = Bulk::Of(numbers);
  for (const double x : numbers) EXPECT_EQ(bulk.Squash(x), x);
}

TEST(BulkTest, ThreeAtomsAreSetAside) {
  std::vector<double> numbers(180, 0.0);
  numbers.insert(numbers.end(), 40, 1.0);
  numbers.insert(numbers.end(), 10, 2.0);
  numbers.insert(numbers.end(), {3, 4, 6});
  EXPECT_DOUBLE_EQ(Bulk::Of(numbers).scale(), 1.5 / 1.349);
  EXPECT_EQ(Bulk::Of(numbers).Distance(4), 0);
  numbers.insert(numbers.end(), 520, 0.0);
  numbers.insert(numbers.end(), 120, 1.0);
  numbers.insert(numbers.end(), 30, 2.0);
  numbers.insert(numbers.end(), 9, 3.0);
  EXPECT_TRUE(Bulk::Of(numbers).everywhere());
}

TEST(BulkTest, TwoValuesHaveNothingFarOutside) {
  std::vector<double> numbers(200, 2024.0);
  numbers[17] = 2023;
  const Bulk bulk = Bulk::Of(numbers);
  EXPECT_TRUE(bulk.all_but_constant());
  EXPECT_TRUE(bulk.everywhere());
  EXPECT_EQ(bulk.Squash(-1e9), -1e9);
  numbers[18] = numbers[19] = 2023;
  EXPECT_FALSE(Bulk::Of(numbers).all_but_constant());
  EXPECT_TRUE(Bulk::Of(numbers).everywhere());
}

TEST(BulkTest, FarNumbers) {
  const auto find = [](std::vector<double> distances, int64_t most) {
    return FindFarNumbers(std::move(distances), 2, 10, most);
  };
  EXPECT_EQ(find({1, 0.5, 19, 0}, 1).count, 0);
  EXPECT_EQ(find({1, 0.5, 19, 0}, 1).limit, 19);
  EXPECT_EQ(find({1, 0.5, 21, 0}, 1).count, 1);
  EXPECT_EQ(find({1, 0.5, 21, 0}, 1).limit, 2);
  EXPECT_EQ(find({3, 31, 40, 0}, 1).count, 0);
  EXPECT_EQ(find({3, 31, 40, 0}, 2).count, 2);
  EXPECT_EQ(find({3, 31, 40, 0}, 2).limit, 3);
  EXPECT_EQ(find({5}, 0).limit, 5);
}

TEST(BulkTest, NothingToTellABulkBy) {
  for (const std::vector<double>& numbers :
       {std::vector<double>{}, {kNan, kNan}, {3, 3, kNan, 3}, {7}}) {
    const Bulk bulk = Bulk::Of(numbers);
    EXPECT_TRUE(bulk.all_but_constant());
    EXPECT_EQ(bulk.Squash(1e300), 1e300);
    EXPECT_EQ(bulk.Squash(-1), -1);
  }
}

TEST(BulkTest, MonotoneFiniteAndTheSameInEveryUnit) {
  const std::vector<double> numbers = {0.5, 1, 1.5, 2, 7, -3, 1.25, 1.75};
  const Bulk bulk = Bulk::Of(numbers);
  const std::vector<double> asked = {-1.7e308, -1e100, -50, -5, 0, 1, 20, 21, 1e10, 1.7e308};
  double last = -std::numeric_limits<double>::infinity();
  for (const double x : asked) {
    const double squashed = bulk.Squash(x);
    EXPECT_TRUE(std::isfinite(squashed)) << x;
    EXPECT_GT(squashed, last) << x;
    last = squashed;
  }
  for (const int exponent : {-900, -30, 7, 900}) {
    std::vector<double> scaled = numbers;
    for (double& x : scaled) x = std::ldexp(x, exponent);
    const Bulk there = Bulk::Of(scaled);
    for (const double x : {-50.0, -5.0, 1.0, 20.0, 1e10}) {
      EXPECT_DOUBLE_EQ(there.Squash(std::ldexp(x, exponent)), std::ldexp(bulk.Squash(x), exponent));
    }
  }
}

// The scale may be the smallest there is, and distances the largest.
TEST(BulkTest, ExtremeMagnitudes) {
  const Bulk tiny = Bulk::Of({0, 5e-324, 1e-323, 1.5e-323, 2e-323});
  for (const double x : {1.0, 1e308, -1e308}) {
    EXPECT_TRUE(std::isfinite(tiny.Squash(x)));
    EXPECT_LT(std::abs(tiny.Squash(x)), 1e-319);
  }
  const Bulk huge = Bulk::Of({1.7e308, -1.7e308, -1.7e308, 1.7e308});
  EXPECT_EQ(huge.Squash(1.7e308), 1.7e308);
}

}  // namespace
}  // namespace chorale
