#include "engine/session/order_average.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(OrderAverageTest, HandNumbers) {
  // Densities 1, 2 and 6: mean 3, variance 7, so se = sqrt(7 / 3) / 3.
  const OrderAverage average = AverageOverOrders({std::log(1.0), std::log(2.0), std::log(6.0)});
  EXPECT_NEAR(average.log_mean, std::log(3.0), 1e-14);
  EXPECT_NEAR(average.standard_error, std::sqrt(7.0 / 3) / 3, 1e-14);
}

TEST(OrderAverageTest, DoesNotOverflowOrUnderflow) {
  for (const double shift : {-5000.0, 5000.0}) {
    const OrderAverage average =
        AverageOverOrders({shift + std::log(1.0), shift + std::log(2.0), shift + std::log(6.0)});
    EXPECT_NEAR(average.log_mean, shift + std::log(3.0), 1e-9);
    EXPECT_NEAR(average.standard_error, std::sqrt(7.0 / 3) / 3, 1e-9);
  }
}

TEST(OrderAverageTest, EqualOrdersHaveNoError) {
  const OrderAverage average = AverageOverOrders(std::vector<double>(10, -3.25));
  EXPECT_DOUBLE_EQ(average.log_mean, -3.25);
  EXPECT_DOUBLE_EQ(average.standard_error, 0);
}

TEST(OrderAverageTest, OneOrderHasNoStandardError) {
  const OrderAverage average = AverageOverOrders({-2.0});
  EXPECT_DOUBLE_EQ(average.log_mean, -2.0);
  EXPECT_TRUE(std::isnan(average.standard_error));
}

TEST(OrderAverageTest, ZeroDensities) {
  const double zero = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(AverageOverOrders({zero, zero}).log_mean, zero);
  EXPECT_NEAR(AverageOverOrders({zero, std::log(4.0)}).log_mean, std::log(2.0), 1e-14);
}

}  // namespace
}  // namespace chorale
