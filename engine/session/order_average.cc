#include "engine/session/order_average.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace chorale {

OrderAverage AverageOverOrders(absl::Span<const double> log_densities) {
  const size_t orders = log_densities.size();
  const double n = static_cast<double>(orders);
  const double largest = *std::max_element(log_densities.begin(), log_densities.end());
  OrderAverage average;
  average.standard_error = std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(largest)) {  // all densities are zero; there is no scale
    average.log_mean = largest;
    if (orders >= kMinOrdersWithError) average.standard_error = 0;
    return average;
  }
  std::vector<double> densities;  // relative to the largest
  densities.reserve(orders);
  for (const double l : log_densities) densities.push_back(std::exp(l - largest));
  const double mean = std::accumulate(densities.begin(), densities.end(), 0.0) / n;  // >= 1/n
  average.log_mean = largest + std::log(mean);
  if (orders < kMinOrdersWithError) return average;
  double squares = 0;
  for (size_t r = 0; r < orders; r += 2) {
    double deviation = densities[r] - mean;
    if (r + 1 < orders) deviation += densities[r + 1] - mean;
    squares += deviation * deviation;
  }
  const double pairs = std::ceil(n / 2);
  average.standard_error = std::sqrt(squares * pairs / (pairs - 1)) / n / mean;
  return average;
}

}  // namespace chorale
