#include "engine/session/row_orders.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops/random.h"

namespace chorale {

std::vector<int32_t> DrawOrders(uint64_t seed, int64_t first_path, int64_t paths,
                                int64_t query_rows) {
  std::vector<int32_t> orders(paths * query_rows);
  for (int64_t p = 0; p < paths; ++p) {
    kernels::DrawOrder(seed, static_cast<uint64_t>(first_path + p), query_rows,
                       &orders[p * query_rows]);
  }
  return orders;
}

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
