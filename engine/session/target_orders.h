// Random target orders, and the average of densities over them.
#ifndef CHORALE_ENGINE_SESSION_TARGET_ORDERS_H_
#define CHORALE_ENGINE_SESSION_TARGET_ORDERS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// The orders of paths [first_path, first_path + paths), [paths, T].
std::vector<int32_t> DrawOrders(uint64_t seed, int64_t first_path, int64_t paths, int64_t targets);

struct OrderAverage {
  double log_mean = 0;        // log of the mean density
  double standard_error = 0;  // of log_mean over orders; NaN with fewer than 2
};

// The log of the mean of exp(log_densities), and its standard error by the delta method:
//   se(log mean) = se(mean) / mean,   se(mean)^2 = sum (p_r - mean)^2 / (R (R - 1))
// computed relative to the largest density, so that it neither overflows nor underflows.
// REQUIRES: at least one.
OrderAverage AverageOverOrders(absl::Span<const double> log_densities);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_TARGET_ORDERS_H_
