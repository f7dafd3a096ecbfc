#include "engine/session/order_average.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

std::vector<double> Logs(std::vector<double> densities, double shift = 0) {
  for (double& density : densities) density = shift + std::log(density);
  return densities;
}

TEST(OrderAverageTest, HandNumbers) {
  // The means of the pairs are 1.5 and 4.5; their mean is 3 and its error sqrt(4.5 / 2) = 1.5.
  const OrderAverage average = AverageOverOrders(Logs({1, 2, 6, 3}));
  EXPECT_NEAR(average.log_mean, std::log(3.0), 1e-14);
  EXPECT_NEAR(average.standard_error, 0.5, 1e-14);
}

TEST(OrderAverageTest, TheLastOfAnOddNumberIsAPairByItself) {
  // Deviations of the sums from multiples of the mean: -3, 1 and 2; 3 / 2 * 14 / 25.
  const OrderAverage average = AverageOverOrders(Logs({1, 2, 6, 1, 5}));
  EXPECT_NEAR(average.log_mean, std::log(3.0), 1e-14);
  EXPECT_NEAR(average.standard_error, std::sqrt(1.5 * 14 / 25) / 3, 1e-14);
}

TEST(OrderAverageTest, PairsWhoseDeviationsCancelHaveNoError) {
  const OrderAverage average = AverageOverOrders(Logs({1, 5, 2, 4, 6, 0.0}));
  EXPECT_NEAR(average.log_mean, std::log(3.0), 1e-14);
  EXPECT_NEAR(average.standard_error, 0, 1e-14);
}

TEST(OrderAverageTest, DoesNotOverflowOrUnderflow) {
  for (const double shift : {-5000.0, 5000.0}) {
    const OrderAverage average = AverageOverOrders(Logs({1, 2, 6, 3}, shift));
    EXPECT_NEAR(average.log_mean, shift + std::log(3.0), 1e-9);
    EXPECT_NEAR(average.standard_error, 0.5, 1e-9);
  }
}

TEST(OrderAverageTest, EqualOrdersHaveNoError) {
  const OrderAverage average = AverageOverOrders(std::vector<double>(10, -3.25));
  EXPECT_DOUBLE_EQ(average.log_mean, -3.25);
  EXPECT_DOUBLE_EQ(average.standard_error, 0);
}

TEST(OrderAverageTest, FewerThanTwoPairsHaveNoStandardError) {
  for (const size_t orders : {1, 2, 3}) {
    const OrderAverage average = AverageOverOrders(std::vector<double>(orders, -2.0));
    EXPECT_DOUBLE_EQ(average.log_mean, -2.0);
    EXPECT_TRUE(std::isnan(average.standard_error));
  }
}

TEST(OrderAverageTest, ZeroDensities) {
  const double zero = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(AverageOverOrders({zero, zero}).log_mean, zero);
  EXPECT_NEAR(AverageOverOrders({zero, std::log(4.0)}).log_mean, std::log(2.0), 1e-14);
}

}  // namespace
}  // namespace chorale
