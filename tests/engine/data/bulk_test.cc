#include "engine/data/bulk.h"

#include <cmath>
#include <limits>
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

TEST(BulkTest, EqualQuartilesLeaveTheDeviations) {
  // Of |x - 0| the smallest 99 of 100: 89 zeros and 10 ones.
  std::vector<double> numbers(100, 0.0);
  for (int i = 0; i < 10; ++i) numbers[i] = 1;
  numbers[10] = 1000;
  const Bulk bulk = Bulk::Of(numbers);
  const double scale = 1.2533 * 10 / 99;
  EXPECT_FALSE(bulk.all_but_constant());
  EXPECT_TRUE(bulk.Contains(7.999 * scale));
  EXPECT_FALSE(bulk.Contains(8.001 * scale));
  EXPECT_NEAR(bulk.Squash(1000), scale * (8 + std::log1p(1000 / scale - 8)), 1e-12);
}

TEST(BulkTest, AllButConstant) {
  std::vector<double> numbers(200, 2024.0);
  numbers[17] = 2023;
  const Bulk bulk = Bulk::Of(numbers);
  EXPECT_TRUE(bulk.all_but_constant());
  const double deviation = std::sqrt(199.0) / 200;
  EXPECT_TRUE(bulk.Contains(2024 - 7.99 * deviation));
  EXPECT_FALSE(bulk.Contains(2023));
  EXPECT_GT(bulk.Squash(2023), 2023);
  numbers[18] = numbers[19] = 2022;
  EXPECT_FALSE(Bulk::Of(numbers).all_but_constant());
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
