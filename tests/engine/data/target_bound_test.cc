#include "engine/data/target_bound.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(TargetBoundTest, ASingleErrorGoesBackToTwoScalesOrToTheFarthestOfTheOthers) {
  // Of 1, 2, 3, 4, 1000: the median is 3, the scale 2 / 1.349.
  const double scale = 2 / 1.349;
  for (const double wrong : {1000.0, -1000.0, 1e300}) {
    const TargetBound bound = TargetBound::Of({1, 2, 3, 4, wrong});
    EXPECT_EQ(bound.limit(), 2) << wrong;
    EXPECT_FALSE(bound.Contains(wrong));
    if (wrong > 0) {
      EXPECT_DOUBLE_EQ(bound.BringBack(wrong), 3 + 2 * scale);
    }
    for (const double value : {1.0, 2.0, 3.0, 4.0}) EXPECT_EQ(bound.BringBack(value), value);
  }
  // Of 1, 2, 3, 4, 5, -5, 10, 1e6: the quartiles are 1.75 and 6.25, the median 3.5.
  const TargetBound farther = TargetBound::Of({1, 2, 3, 4, 5, -5, 10, 1e6});
  EXPECT_DOUBLE_EQ(farther.limit(), 8.5 / (4.5 / 1.349));
  EXPECT_DOUBLE_EQ(farther.BringBack(1e6), 12);
  EXPECT_EQ(farther.BringBack(10), 10);
}

TEST(TargetBoundTest, WithoutAWideGapNothingIsWrong) {
  const double scale = 2 / 1.349;
  const auto limit_with = [&](double distance) {
    return TargetBound::Of({1, 2, 3, 4, 3 + distance * scale}).limit();
  };
  EXPECT_NEAR(limit_with(59), 59, 1e-9);
  EXPECT_EQ(limit_with(61), 2);
}

TEST(TargetBoundTest, OneInFiftyMayBeWrong) {
  for (const int wrong : {1, 2, 3}) {
    std::vector<double> values;
    for (int i = 0; i < 147; ++i) values.push_back(std::sin(i));
    for (int i = 0; i < 3; ++i) values.push_back(i < wrong ? 1e6 * std::pow(4, i) : 0.5);
    EXPECT_LT(TargetBound::Of(values).limit(), 3) << wrong;
    values.pop_back();  // of 149, two may be
    if (wrong < 3) {
      EXPECT_LT(TargetBound::Of(values).limit(), 3) << wrong;
    }
  }
  std::vector<double> values(40);
  for (int i = 0; i < 40; ++i) values[i] = std::sin(i);
  values[0] = 1e6;
  values[1] = 2e6;
  EXPECT_TRUE(TargetBound::Of(values).Contains(2e6)) << "two of forty are no errors";
}

// 1.1 % of the orders are wholesale: they were taken for errors.
TEST(TargetBoundTest, ThreeThatAgreeAreAPartOfTheTarget) {
  const auto limit_with = [](std::vector<double> values) {
    for (int i = 0; i < 800; ++i) values.push_back(100 + 10 * std::sin(i));
    return TargetBound::Of(values).limit();
  };
  std::vector<double> wholesale;
  for (int i = 0; i < 9; ++i) wholesale.push_back(50'000 + 5'000 * std::sin(7 * i));
  const double limit = limit_with(wholesale);
  EXPECT_GT(limit, 1000);
  EXPECT_GT(limit_with({2e5, 1e5, 4.1e4}), 10'000);
  EXPECT_EQ(limit_with({2e5, 1e5}), 2);
  EXPECT_EQ(limit_with({9e5, 2e5, 1e5}), 2) << "the first is 9 times as far out as the third";
  // Far behind it a typing error is one all the same.
  wholesale.push_back(9e7);
  EXPECT_NEAR(limit_with(wholesale), limit, 0.05 * limit);
}

// 1.5 % of the rows have a claim: they were taken for errors, and a mean of 12 came out as 0.1.
TEST(TargetBoundTest, AGroupBesideAnAtomIsAPartOfTheTarget) {
  for (const int claims : {1, 2, 3, 12, 15, 18, 20, 200}) {
    std::vector<double> values(1000, 0.0);
    for (int i = 0; i < claims; ++i) values[i * 4] = 800 * std::exp(0.6 * std::sin(i));
    const TargetBound bound = TargetBound::Of(values);
    for (const double value : values) EXPECT_EQ(bound.BringBack(value), value) << claims;
  }
}

TEST(TargetBoundTest, BesideAnAtomOneOrTwoThatDifferMayBeWrong) {
  std::vector<double> claims(1000, 0.0);
  for (int i = 0; i < 15; ++i) claims[i * 4] = 800 * std::exp(0.6 * std::sin(i));
  const auto wrong = [&](std::vector<double> others) {
    std::vector<double> values = claims;
    values.insert(values.end(), others.begin(), others.end());
    const TargetBound bound = TargetBound::Of(values);
    int count = 0;
    for (const double value : values) count += bound.Contains(value) ? 0 : 1;
    return count;
  };
  EXPECT_EQ(wrong({9e7}), 1);
  EXPECT_EQ(wrong({9e7, 1e7}), 2);
  EXPECT_EQ(wrong({9e7, 8e7}), 0) << "two that agree";
  EXPECT_EQ(wrong({9e7, 1e7, 1e6}), 0) << "three";
}

TEST(TargetBoundTest, ConstantOrAllButConstantValuesStay) {
  std::vector<double> values(200, 3.0);
  EXPECT_EQ(TargetBound::Of(values).BringBack(1e9), 1e9);
  values[0] = 1e9;
  EXPECT_EQ(TargetBound::Of(values).BringBack(1e9), 1e9);
  EXPECT_EQ(TargetBound::Of({7}).BringBack(1e9), 1e9);
  EXPECT_EQ(TargetBound().BringBack(1e9), 1e9);
}

// The values that determine the bound have no error.
TEST(TargetBoundTest, LaterValuesBehindAWideGapAreWrong) {
  std::vector<double> prices;
  for (int i = 0; i < 400; ++i) prices.push_back(50'000 + 10'000 * std::sin(i));
  const TargetBound bound = TargetBound::Of(prices);
  EXPECT_EQ(bound.limit(), TargetBound::kLeastLimit);
  for (const double price : {5e6, 1e9, 1e40, -1e9}) {
    EXPECT_FALSE(bound.Contains(price)) << price;
    EXPECT_NEAR(bound.BringBack(price), 50'000, 30'000) << price;
  }
  for (const double price : {0.0, 90'000.0, 400'000.0}) {
    EXPECT_EQ(bound.BringBack(price), price) << "no wide gap";
  }
  prices.push_back(1e9);
  const TargetBound with_error = TargetBound::Of(prices);
  EXPECT_TRUE(with_error.Contains(400'000)) << "the same rule if there is an error";
  EXPECT_FALSE(with_error.Contains(5e6));
}

}  // namespace
}  // namespace chorale
