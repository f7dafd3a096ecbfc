// TargetSupport::Preimage: exactly the numbers that Snap maps to an interval.
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "engine/data/target_support.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using SnappedInterval = TargetSupport::SnappedInterval;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Repeated {
  double value;
  int rows;
};

std::vector<double> Values(const std::vector<Repeated>& parts) {
  std::vector<double> values;
  for (const Repeated& part : parts) values.insert(values.end(), part.rows, part.value);
  return values;
}

TargetSupport Counts() {  // integers, at least 0
  return TargetSupport::Of(Values({{0, 70}, {1, 20}, {2, 7}, {3, 2}, {9, 1}}));
}
TargetSupport Scale() {  // integers from 1 to 5
  return TargetSupport::Of(Values({{1, 20}, {2, 20}, {3, 20}, {4, 20}, {5, 20}}));
}
TargetSupport Tenths() {
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) values.push_back((i % 12) / 10.0 - 0.5);
  return TargetSupport::Of(values);
}
TargetSupport Prices() { return TargetSupport::Of(Values({{0.99, 10}, {4.5, 10}, {20, 10}})); }
// 0 and 100 besides other numbers of both signs.
TargetSupport Atoms() {
  std::vector<double> values = Values({{0, 30}, {100, 20}});
  for (int i = 0; i < 100; ++i) values.push_back(200 * std::fmod(i * std::sqrt(2.0), 1.0) - 40);
  return TargetSupport::Of(values);
}
TargetSupport Claims() {  // 0, or more
  std::vector<double> values = Values({{0, 60}});
  for (int i = 1; i < 100; ++i) values.push_back(30 + 500 * std::fmod(i * std::sqrt(2.0), 1.0));
  return TargetSupport::Of(values);
}

void ExpectInterval(const std::optional<SnappedInterval>& actual, const SnappedInterval& expected) {
  ASSERT_TRUE(actual.has_value());
  EXPECT_DOUBLE_EQ(actual->low, expected.low);
  EXPECT_DOUBLE_EQ(actual->high, expected.high);
  EXPECT_DOUBLE_EQ(actual->least, expected.least);
  EXPECT_DOUBLE_EQ(actual->greatest, expected.greatest);
}

TEST(TargetPreimageTest, OfTheWholeLineIsTheIntervalItself) {
  ExpectInterval(TargetSupport().Preimage(-2, 3), {-2, 3, -2, 3});
  ExpectInterval(TargetSupport().Preimage(3, 3), {3, 3, 3, 3});
  ExpectInterval(TargetSupport().Preimage(-kInfinity, 3), {-kInfinity, 3, -kInfinity, 3});
}

TEST(TargetPreimageTest, OfALatticeEndsBetweenItsPoints) {
  const TargetSupport counts = Counts();
  ExpectInterval(counts.Preimage(2, 2), {1.5, 2.5, 2, 2});
  ExpectInterval(counts.Preimage(1.2, 4.9), {1.5, 4.5, 2, 4});
  ExpectInterval(counts.Preimage(3, kInfinity), {2.5, kInfinity, 3, kInfinity});
  EXPECT_FALSE(counts.Preimage(1.2, 1.8).has_value());
  // Everything below the bound is snapped to it.
  ExpectInterval(counts.Preimage(0, 0), {-kInfinity, 0.5, 0, 0});
  ExpectInterval(counts.Preimage(-5, 1.5), {-kInfinity, 1.5, 0, 1});
  EXPECT_FALSE(counts.Preimage(-5, -0.1).has_value());
  ExpectInterval(Scale().Preimage(5, 8), {4.5, kInfinity, 5, 5});
  EXPECT_FALSE(Scale().Preimage(5.5, 8).has_value());
  ExpectInterval(Scale().Preimage(-kInfinity, kInfinity), {-kInfinity, kInfinity, 1, 5});
}

TEST(TargetPreimageTest, OfDecimalNumbersContainsTheirOwnValue) {
  const TargetSupport tenths = Tenths();
  for (int i = -5; i <= 6; ++i) {
    const double y = tenths.Snap(i / 10.0);
    const auto preimage = tenths.Preimage(y, y);
    ASSERT_TRUE(preimage.has_value()) << i;
    EXPECT_EQ(preimage->least, y);
    EXPECT_EQ(preimage->greatest, y);
  }
}

TEST(TargetPreimageTest, OfASetEndsInTheMiddleOfItsValues) {
  const TargetSupport prices = Prices();
  ExpectInterval(prices.Preimage(4.5, 4.5), {2.745, 12.25, 4.5, 4.5});
  ExpectInterval(prices.Preimage(0, 5), {-kInfinity, 12.25, 0.99, 4.5});
  ExpectInterval(prices.Preimage(20, 20), {12.25, kInfinity, 20, 20});
  EXPECT_FALSE(prices.Preimage(5, 6).has_value());
  EXPECT_FALSE(prices.Preimage(21, 22).has_value());
}

TEST(TargetPreimageTest, OfAtomsIsAPointBesideThem) {
  const TargetSupport atoms = Atoms();
  ASSERT_FALSE(atoms.is_whole_line());
  ExpectInterval(atoms.Preimage(50, 50), {50, 50, 50, 50});
  const auto zero = atoms.Preimage(0, 0);
  ASSERT_TRUE(zero.has_value());
  EXPECT_LT(zero->low, 0);
  EXPECT_GT(zero->high, 0);
  EXPECT_EQ(zero->least, 0);
  EXPECT_EQ(zero->greatest, 0);
  // Near an atom, no number keeps its value.
  EXPECT_FALSE(atoms.Preimage(zero->high / 2, zero->high / 2).has_value());
  EXPECT_FALSE(atoms.Preimage(zero->low / 2, zero->low / 2).has_value());
  EXPECT_FALSE(atoms.Preimage(zero->low / 2, zero->low / 3).has_value());
  // An interval that ends near an atom has the atom or not.
  ExpectInterval(atoms.Preimage(zero->low / 2, 50), {zero->low, 50, 0, 50});
  ExpectInterval(atoms.Preimage(zero->high / 2, 50), {zero->high, 50, zero->high, 50});
  ExpectInterval(atoms.Preimage(-30, zero->high / 2), {-30, zero->high, -30, 0});
  ExpectInterval(atoms.Preimage(-30, zero->low / 2), {-30, zero->low, -30, zero->low});
}

TEST(TargetPreimageTest, OfABoundedAtomReachesToInfinity) {
  const TargetSupport claims = Claims();
  const auto zero = claims.Preimage(0, 0);
  ASSERT_TRUE(zero.has_value());
  EXPECT_EQ(zero->low, -kInfinity);
  EXPECT_GT(zero->high, 0);
  EXPECT_FALSE(claims.Preimage(-10, -5).has_value());
  ExpectInterval(claims.Preimage(200, 200), {200, 200, 200, 200});
}

// For each support, each interval and each number.
TEST(TargetPreimageTest, ContainsExactlyTheNumbersThatAreSnappedToTheInterval) {
  for (const TargetSupport& support :
       {Counts(), Scale(), Tenths(), Prices(), Atoms(), Claims(), TargetSupport()}) {
    std::vector<double> ends = {-kInfinity, kInfinity};
    for (double y = -60; y <= 180; y += 7.3) ends.push_back(y);
    for (double y = -3; y <= 8; y += 0.5) ends.push_back(y);
    for (const double lower : ends) {
      for (const double upper : ends) {
        if (!(lower <= upper) || lower == kInfinity || upper == -kInfinity) continue;
        const auto preimage = support.Preimage(lower, upper);
        for (double y = -70.0123; y < 200; y += 1.137) {
          const double snapped = support.Snap(y);
          const bool maps = snapped >= lower && snapped <= upper;
          const bool inside = preimage.has_value() && y >= preimage->low && y <= preimage->high;
          ASSERT_EQ(inside, maps) << support.description() << ": " << y << " in " << lower << " to "
                                  << upper;
          if (inside) {
            ASSERT_GE(snapped, preimage->least);
            ASSERT_LE(snapped, preimage->greatest);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace chorale
