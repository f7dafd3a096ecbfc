// The average of densities over random orders of the query rows.
#ifndef CHORALE_ENGINE_SESSION_ORDER_AVERAGE_H_
#define CHORALE_ENGINE_SESSION_ORDER_AVERAGE_H_

#include "absl/types/span.h"

namespace chorale {

struct OrderAverage {
  double log_mean = 0;        // log of the mean density
  double standard_error = 0;  // of log_mean over orders; NaN for fewer than 2
};

// Returns the log of the mean of exp(log_densities), and its standard error by the delta method:
//   se(log mean) = se(mean) / mean,   se(mean)^2 = sum (p_r - mean)^2 / (R (R - 1))
// Computes relative to the largest density, to avoid overflow and underflow. REQUIRES:
// log_densities is not empty.
OrderAverage AverageOverOrders(absl::Span<const double> log_densities);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_ORDER_AVERAGE_H_
