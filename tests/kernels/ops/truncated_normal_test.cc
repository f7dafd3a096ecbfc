#include "kernels/ops/truncated_normal.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace chorale::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Interval {
  double low;
  double high;
};

// In the tails and around 0, wide, narrow and with open ends.
constexpr Interval kIntervals[] = {
    {-1, 2},        {-0.3, 0.4},     {0.5, 0.7},      {-3, -1},      {8, 9},
    {-9, -8},       {30, 31},        {-31, -30},      {37, 50},      {-kInfinity, -12},
    {3, kInfinity}, {-kInfinity, 1}, {-2, kInfinity}, {60, 60.5},    {-60.5, -60},
    {2, 2 + 1e-9},  {-30.001, -30},  {30, 30 + 1e-7}, {-1e-8, 2e-8}, {0, 5},
    {-5, 0},        {-9, 9},         {-0.0001, 12},   {29.9, 30.1},  {-40, kInfinity},
    {5, 5 + 1e-4}};

// Of a long double, whose exponents reach to the square of a z of 150.
long double Cdf(long double z) { return 0.5L * erfcl(-z * 0.707106781186547524400844L); }

// P(low <= Z <= high), by Simpson's rule where a difference would cancel.
long double Probability(long double low, long double high) {
  if (low > 0) return Probability(-high, -low);
  if (high >= 0 || high - low > 0.1L) return Cdf(high) - Cdf(low);
  constexpr int kParts = 200;
  const long double width = (high - low) / kParts;
  long double sum = 0;
  for (int i = 0; i <= kParts; ++i) {
    const long double z = low + i * width;
    const int factor = i == 0 || i == kParts ? 1 : (i % 2 == 1 ? 4 : 2);
    sum += factor * expl(-0.5L * z * z);
  }
  return sum * width / 3 * 0.398942280401432677939946L;
}

TEST(LogNormalCdfTest, HasAllDigitsInBothTails) {
  for (const double z : {-100.0, -45.0, -31.0, -30.0, -29.99, -12.0, -3.0, -0.5, 0.0, 0.5, 3.0}) {
    const auto expected = static_cast<double>(logl(Cdf(z)));
    EXPECT_NEAR(LogNormalCdf(z), expected, 4e-15 * std::abs(expected)) << z;
  }
  EXPECT_NEAR(LogNormalCdf(9), -1.1285884e-19, 1e-26);
  EXPECT_EQ(LogNormalCdf(-kInfinity), -kInfinity);
  EXPECT_EQ(LogNormalCdf(kInfinity), 0);
}

TEST(LogNormalIntervalTest, AgreesWithLongDoubles) {
  for (const auto& [low, high] : kIntervals) {
    const auto expected = static_cast<double>(logl(Probability(low, high)));
    const double tolerance = 1e-12 + 1e-14 * std::abs(expected);
    EXPECT_NEAR(LogNormalInterval(low, high), expected, tolerance) << low << " to " << high;
    EXPECT_EQ(LogNormalInterval(low, high), LogNormalInterval(-high, -low));
  }
  EXPECT_EQ(LogNormalInterval(-kInfinity, kInfinity), 0);
  EXPECT_EQ(LogNormalInterval(3, 3), -kInfinity);
}

TEST(LogNormalIntervalTest, IsFiniteWhereProbabilitiesUnderflow) {
  EXPECT_NEAR(LogNormalInterval(1000, 1001), -500000 - std::log(1000) - 0.91893853320467274, 1e-5);
  EXPECT_EQ(LogNormalInterval(1e200, 2e200), -kInfinity);
}

TEST(TruncatedNormalQuantileTest, InvertsTheProbability) {
  for (const auto& [low, high] : kIntervals) {
    double last = low;
    for (const double p : {1e-12, 0.001, 0.2, 0.5, 0.77, 0.999}) {
      const double z = TruncatedNormalQuantile(low, high, p);
      ASSERT_GE(z, last) << low << " to " << high;
      ASSERT_LE(z, high);
      last = z;
      // A z has a rounding error, which changes the probability by the density.
      const long double all = Probability(low, high);
      const auto below = static_cast<double>(Probability(low, z) / all);
      const auto density = static_cast<double>(expl(-0.5L * z * z) * 0.3989422804L / all);
      EXPECT_NEAR(below, p, 1e-9 * p + 4e-15 * (1 + std::abs(z)) * density)
          << low << " to " << high << ", " << p;
    }
  }
}

TEST(TruncatedNormalQuantileTest, HasTheMomentsOfTheTail) {
  // E[Z | low <= Z <= high] = (density(low) - density(high)) / P(low <= Z <= high), and
  // E[Z^2 | ...] = 1 + (low density(low) - high density(high)) / P.
  for (const auto& [low, high] : {Interval{8, 9}, Interval{30, 31}, Interval{-31, -30},
                                  Interval{-9, -8}, Interval{-1, 0.5}, Interval{1, 1.01}}) {
    constexpr int kPoints = 20'000;
    double mean = 0;
    double square = 0;  // around the end, where the mass is
    const double end = low > 0 ? low : high;
    for (int i = 0; i < kPoints; ++i) {
      const double z = TruncatedNormalQuantile(low, high, (i + 0.5) / kPoints);
      mean += z / kPoints;
      square += (z - end) * (z - end) / kPoints;
    }
    const auto density = [](long double z) { return expl(-0.5L * z * z) * 0.398942280401432678L; };
    const long double all = Probability(low, high);
    const long double first = (density(low) - density(high)) / all;
    const long double second = 1 + (low * density(low) - high * density(high)) / all;
    EXPECT_NEAR(mean, static_cast<double>(first), 2e-5) << low;
    const auto expected = static_cast<double>(second - 2 * end * first + end * end);
    EXPECT_NEAR(square, expected, 1e-3 * expected) << low;
  }
}

}  // namespace
}  // namespace chorale::kernels
