#include "engine/data/target_support.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

// `rows` times each value.
struct Repeated {
  double value;
  int rows;
};

std::vector<double> Values(const std::vector<Repeated>& parts) {
  std::vector<double> values;
  for (const Repeated& part : parts) values.insert(values.end(), part.rows, part.value);
  return values;
}

// Different values that are no decimal numbers.
std::vector<double> With(std::vector<double> values, int others, double first, double width) {
  for (int i = 0; i < others; ++i) {
    values.push_back(first + width * std::fmod(i * std::sqrt(2.0), 1.0));
  }
  return values;
}

TEST(TargetSupportTest, WhatDoesNotRepeatIsTheWholeLine) {
  for (const std::vector<double>& values :
       {std::vector<double>(), std::vector<double>(50, 3.0), With({}, 100, 0, 1),
        // All different, though whole; and repeated in too few rows.
        std::vector<double>{7, 3, 9, 2, 5, 11, 8, 1, 4, 6}, std::vector<double>(9, 1.0),
        With(Values({{1, 4}}), 100, 0, 1), With(Values({{1, 5}}), 100, 0, 1)}) {
    const TargetSupport support = TargetSupport::Of(values);
    EXPECT_TRUE(support.is_whole_line()) << values.size();
    EXPECT_TRUE(support.description().empty());
    for (const double y : {-1e300, -0.3, 0.99, 1e300}) EXPECT_EQ(support.Snap(y), y);
  }
}

TEST(TargetSupportTest, CountsAreWholeAndNotNegative) {
  const TargetSupport support =
      TargetSupport::Of(Values({{0, 70}, {1, 20}, {2, 7}, {3, 2}, {9, 1}}));
  EXPECT_EQ(support.description(), "integers, at least 0");
  EXPECT_EQ(support.Snap(-3), 0);
  EXPECT_EQ(support.Snap(0.49), 0);
  EXPECT_EQ(support.Snap(0.51), 1);
  EXPECT_EQ(support.Snap(5.2), 5) << "a number that the context does not have";
  EXPECT_EQ(support.Snap(40.7), 41) << "more than the context has";
  EXPECT_FALSE(std::signbit(support.Snap(-0.2)));
}

TEST(TargetSupportTest, LargeCountsAreWhole) {
  std::vector<double> counts;
  for (int i = 0; i < 600; ++i) counts.push_back(std::nearbyint(400 + 20 * std::sin(i)));
  EXPECT_EQ(TargetSupport::Of(counts).Snap(398.4), 398);
}

TEST(TargetSupportTest, ABoundIsNeverLeft) {
  const TargetSupport binary = TargetSupport::Of(Values({{0, 98}, {1, 2}}));
  EXPECT_EQ(binary.description(), "integers, at least 0, at most 1");
  EXPECT_EQ(binary.Snap(1.8), 1);
  EXPECT_EQ(binary.Snap(-0.8), 0);
  const TargetSupport rating =
      TargetSupport::Of(Values({{1, 10}, {2, 20}, {3, 30}, {4, 30}, {5, 10}}));
  EXPECT_EQ(rating.Snap(6), 5);
  EXPECT_EQ(rating.Snap(0), 1);
}

TEST(TargetSupportTest, DecimalsAreThoseOfTheContext) {
  const TargetSupport halves =
      TargetSupport::Of(Values({{0.1, 20}, {0.6, 20}, {1.1, 10}, {2.1, 5}}));
  EXPECT_EQ(halves.description(), "0.1 plus integer multiples of 0.5, at least 0.1, at most 2.1");
  EXPECT_EQ(halves.Snap(0.9), 1.1);
  EXPECT_EQ(halves.Snap(1.7), 1.6);
}

TEST(TargetSupportTest, ALatticeBeginsAtItsSmallestPointThatIsNotNegative) {
  // Minutes that are rounded to 5, plus 2.
  const TargetSupport minutes =
      TargetSupport::Of(Values({{7, 3}, {12, 30}, {17, 40}, {22, 20}, {27, 6}, {37, 1}}));
  EXPECT_EQ(minutes.description(), "7 plus integer multiples of 5, at least 2");
  EXPECT_EQ(minutes.Snap(-40), 2);
  EXPECT_EQ(minutes.Snap(3), 2);
  EXPECT_EQ(minutes.Snap(6), 7);
  EXPECT_EQ(minutes.Snap(70), 72);
  // A number that is no count among counts: halves, but none below 0.
  const TargetSupport counts =
      TargetSupport::Of(Values({{0, 50}, {1, 30}, {2, 20}, {2.5, 1}, {3, 9}}));
  EXPECT_EQ(counts.Snap(-26), 0);
  EXPECT_EQ(counts.Snap(0.9), 1);
}

TEST(TargetSupportTest, ANegativeLatticeHasNoBound) {
  const TargetSupport changes =
      TargetSupport::Of(Values({{-3, 2}, {-1, 30}, {0, 40}, {1, 30}, {2, 1}}));
  EXPECT_EQ(changes.Snap(-7.2), -7);
}

TEST(TargetSupportTest, AScaleIsClosedWhereEachValueIsCommon) {
  // 3 % and 4 % at its ends are no atoms.
  const TargetSupport rating =
      TargetSupport::Of(Values({{1, 6}, {2, 20}, {3, 80}, {4, 86}, {5, 8}}));
  EXPECT_EQ(rating.description(), "integers, at least 1, at most 5");
  EXPECT_EQ(rating.Snap(0), 1);
  EXPECT_EQ(rating.Snap(6.4), 5);
  // Two sevens among 100 counts close nothing.
  const TargetSupport counts =
      TargetSupport::Of(Values({{0, 20}, {1, 30}, {2, 20}, {3, 20}, {5, 8}, {7, 2}}));
  EXPECT_EQ(counts.Snap(8.2), 8);
}

// The number of stores, one more every 20 rows: its end has as many rows as each before it.
TEST(TargetSupportTest, ACountThatRisesGoesOn) {
  const TargetSupport stores =
      TargetSupport::Of(Values({{10, 20}, {11, 20}, {12, 20}, {13, 20}, {14, 22}}));
  EXPECT_EQ(stores.description(), "integers");
  EXPECT_EQ(stores.Snap(18.1), 18);
  const TargetSupport capped =
      TargetSupport::Of(Values({{93, 8}, {95, 9}, {96, 9}, {97, 12}, {99, 10}, {100, 60}}));
  EXPECT_EQ(capped.Snap(103), 100);
  EXPECT_EQ(capped.Snap(80), 80);
}

TEST(TargetSupportTest, ALatticeFarFromZeroMayBeNegative) {
  std::vector<Repeated> degrees;
  for (int i = 10; i <= 30; ++i) degrees.push_back({static_cast<double>(i), 1 + i % 3});
  EXPECT_EQ(TargetSupport::Of(Values(degrees)).Snap(-5.2), -5);
  // Counts about 8, of which the smallest is 2.
  std::vector<Repeated> counts;
  constexpr int kPoisson[] = {1, 3, 6, 9, 12, 14, 14, 12, 10, 7, 5, 3, 2, 1};
  for (int i = 0; i < 14; ++i) counts.push_back({2.0 + i, kPoisson[i]});
  EXPECT_EQ(TargetSupport::Of(Values(counts)).Snap(-1), 0);
}

TEST(TargetSupportTest, AScaleMayBeSymmetric) {
  const TargetSupport opinions =
      TargetSupport::Of(Values({{-2, 6}, {-1, 20}, {0, 30}, {1, 20}, {2, 6}}));
  EXPECT_EQ(opinions.description(), "integers, at least -2, at most 2");
}

// Claims of an insurer, times -1.
TEST(TargetSupportTest, ZeroHasNoSign) {
  std::vector<double> values = With(Values({{-0.0, 60}}), 40, -300, 100);
  const TargetSupport claims = TargetSupport::Of(values);
  EXPECT_EQ(claims.description(), "0 if they are close to it, at most 0");
  EXPECT_FALSE(std::signbit(claims.Snap(-0.1)));
  const TargetSupport counts = TargetSupport::Of(Values({{-3, 9}, {-1, 30}, {-0.0, 60}}));
  EXPECT_FALSE(std::signbit(counts.Snap(-0.1)));
}

// A model places the zeros of lognormal amounts within their width, far beyond the smallest.
TEST(TargetSupportTest, BesideALongTailAnAtomReachesFarther) {
  const auto amounts = [](double deviation) {
    std::vector<double> values(200, 0.0);
    for (int i = 0; i < 200; ++i) {  // by the quantiles of a logistic distribution
      const double share = (i + 0.5) / 200;
      values.push_back(400 * std::exp(deviation * std::log(share / (1 - share)) / 1.8));
    }
    return TargetSupport::Of(values);
  };
  EXPECT_EQ(amounts(2).Snap(40), 0);
  EXPECT_EQ(amounts(2).Snap(200), 200);
  EXPECT_EQ(amounts(0.6).Snap(70), 0);
  EXPECT_EQ(amounts(0.6).Snap(90), 90);
}

// Incomes in hundreds, of which one happens to occur in 5 % of the rows.
TEST(TargetSupportTest, AnAtomStandsOut) {
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) {
    const int rows =
        static_cast<int>(14 * std::exp(-std::pow((i - 20) / 12.0, 2))) + (i == 22 ? 3 : 0);
    values.insert(values.end(), rows, 600.5 + 100.25 * i);
  }
  values.push_back(611.123456789);
  EXPECT_TRUE(TargetSupport::Of(values).is_whole_line());
  values.insert(values.end(), 60, 2605.5);
  EXPECT_FALSE(TargetSupport::Of(values).is_whole_line());
}

TEST(TargetSupportTest, AListOfPricesIsASet) {
  const TargetSupport prices = TargetSupport::Of(
      Values({{0.99, 20}, {1.99, 30}, {4.99, 40}, {9.99, 20}, {19.99, 12}, {49.99, 3}}));
  EXPECT_EQ(prices.description(), "the 6 values that the context contains");
  EXPECT_EQ(prices.Snap(3.2), 1.99);
  EXPECT_EQ(prices.Snap(31), 19.99);
  EXPECT_EQ(prices.Snap(-4), 0.99);
  EXPECT_EQ(prices.Snap(80), 49.99);
}

// Body masses to 25 g, with a spread of 900 g: rounded, but not seen to be.
TEST(TargetSupportTest, AFineStepIsNoLattice) {
  std::vector<double> masses;
  for (int i = 0; i < 300; ++i)
    masses.push_back(
        25 * std::nearbyint(160 + 21 * (std::sin(i) + std::sin(1.7 * i) + std::sin(2.3 * i))));
  EXPECT_TRUE(TargetSupport::Of(masses).is_whole_line());
}

TEST(TargetSupportTest, ASetOfValuesThatAreNoDecimals) {
  const double third = 1.0 / 3;
  const TargetSupport support =
      TargetSupport::Of(Values({{0, 10}, {third, 10}, {2 * third, 10}, {1, 10}}));
  EXPECT_EQ(support.description(), "the 4 values that the context contains");
  EXPECT_EQ(support.Snap(0.2), third);
  EXPECT_EQ(support.Snap(0.1), 0);
  EXPECT_EQ(support.Snap(-5), 0);
  EXPECT_EQ(support.Snap(5), 1);
}

TEST(TargetSupportTest, AnAtomDrawsInWhatIsCloseToIt) {
  // 60 zeros and 40 amounts from 200 to 300: of these, one in 20 is within 205 or so.
  const TargetSupport support = TargetSupport::Of(With(Values({{0, 60}}), 40, 200, 100));
  EXPECT_EQ(support.description(), "0 if they are close to it, at least 0");
  for (const double y : {-50.0, -0.003, 0.0, 0.003, 99.0}) EXPECT_EQ(support.Snap(y), 0) << y;
  for (const double y : {110.0, 250.1, 999.5}) EXPECT_EQ(support.Snap(y), y) << y;
}

// Claims in 1.5 % of the rows: 16 different values, of which 15 are no atoms.
TEST(TargetSupportTest, RareAmountsStayAmounts) {
  const TargetSupport support = TargetSupport::Of(With(Values({{0, 985}}), 15, 300, 1500));
  EXPECT_EQ(support.Snap(0.02), 0);
  EXPECT_EQ(support.Snap(777.7), 777.7);
}

TEST(TargetSupportTest, AnAtomAmongOthersHasTwoSides) {
  std::vector<double> values = With(Values({{0, 30}}), 60, 10, 5);
  values = With(values, 60, -14, 4);  // up to -10
  const TargetSupport support = TargetSupport::Of(values);
  for (const double y : {-4.9, 4.9}) EXPECT_EQ(support.Snap(y), 0) << y;
  for (const double y : {-6.0, 6.0, -40.0, 40.0}) EXPECT_EQ(support.Snap(y), y) << y;
}

TEST(TargetSupportTest, ClippedAtBothEnds) {
  const TargetSupport support = TargetSupport::Of(With(Values({{0, 10}, {1, 20}}), 70, 0.05, 0.9));
  EXPECT_EQ(support.Snap(-0.2), 0);
  EXPECT_EQ(support.Snap(1.3), 1);
  EXPECT_EQ(support.Snap(0.5), 0.5);
}

TEST(TargetSupportTest, SnapIsMonotone) {
  for (const TargetSupport& support :
       {TargetSupport::Of(Values({{0, 70}, {1, 20}, {2, 7}, {3, 2}})),
        TargetSupport::Of(With(Values({{0, 60}, {7, 20}}), 40, 2, 9)),
        TargetSupport::Of(Values({{0, 10}, {1.0 / 3, 10}, {2, 10}}))}) {
    double last = support.Snap(-20);
    for (double y = -20; y < 20; y += 0.01) {
      const double snapped = support.Snap(y);
      EXPECT_GE(snapped, last) << y;
      EXPECT_EQ(support.Snap(snapped), snapped) << y;
      last = snapped;
    }
  }
}

TEST(TargetSupportTest, TheValuesOfTheContextAreAllPossible) {
  const std::vector<double> prices = Values({{9.99, 20}, {49.5, 20}, {100, 30}});
  const std::vector<double> grades = Values({{1, 20}, {2, 20}, {3, 20}, {4, 20}, {5, 20}});
  const std::vector<double> rain = With(Values({{0, 60}}), 100, 1, 9);
  for (const std::vector<double>& values : {prices, grades, rain, With({}, 100, 0, 1)}) {
    const TargetSupport support = TargetSupport::Of(values);
    for (const double value : values) EXPECT_TRUE(support.Contains(value)) << value;
  }
  EXPECT_FALSE(TargetSupport::Of(prices).Contains(50));
  EXPECT_FALSE(TargetSupport::Of(grades).Contains(2.5));
  EXPECT_FALSE(TargetSupport::Of(grades).Contains(6)) << "beyond the largest";
  EXPECT_TRUE(TargetSupport::Of(rain).Contains(0.001)) << "only results are snapped to an atom";
  EXPECT_FALSE(TargetSupport::Of(rain).Contains(-0.5)) << "it is bounded by the atom";
}

}  // namespace
}  // namespace chorale
