// The average of densities over random orders of the query rows.
#ifndef CHORALE_ENGINE_SESSION_ORDER_AVERAGE_H_
#define CHORALE_ENGINE_SESSION_ORDER_AVERAGE_H_

#include <cstddef>

#include "absl/types/span.h"

namespace chorale {

// Two pairs: their difference shows the error.
constexpr size_t kMinOrdersWithError = 4;

struct OrderAverage {
  double log_mean = 0;        // log of the mean density
  double standard_error = 0;  // of log_mean over the pairs of orders; NaN for fewer than 4 orders
};

// Returns the log of the mean of p_r = exp(log_densities[r]), and its standard error by the delta
// method, se(log mean) = se(mean) / mean. Orders 2i and 2i + 1 are a pair, and only pairs are
// independent; with an odd number R of orders, the last one is a pair by itself. For the U pairs of
// n_u orders with the sums s_u, this is the variance of a mean of clusters (Cochran, "Sampling
// Techniques", 3rd ed., section 9A.1, without the finite population correction):
//   se(mean)^2 = U / (U - 1) * sum_u (s_u - n_u mean)^2 / R^2
// Computes relative to the largest density, to avoid overflow and underflow. REQUIRES:
// log_densities is not empty.
OrderAverage AverageOverOrders(absl::Span<const double> log_densities);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_ORDER_AVERAGE_H_
