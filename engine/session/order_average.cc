#include "engine/session/order_average.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace chorale {

OrderAverage AverageOverOrders(absl::Span<const double> log_densities) {
  const double n = static_cast<double>(log_densities.size());
  const double largest = *std::max_element(log_densities.begin(), log_densities.end());
  OrderAverage average;
  average.standard_error = std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(largest)) {  // all densities are zero; there is no scale
    average.log_mean = largest;
    if (n >= 2) average.standard_error = 0;
    return average;
  }
  double sum = 0;
  for (const double l : log_densities) sum += std::exp(l - largest);
  const double mean = sum / n;  // at least 1/n
  average.log_mean = largest + std::log(mean);
  if (n < 2) return average;
  double squares = 0;
  for (const double l : log_densities) {
    const double d = std::exp(l - largest) - mean;
    squares += d * d;
  }
  average.standard_error = std::sqrt(squares / (n * (n - 1))) / mean;
  return average;
}

}  // namespace chorale
