// Mean and standard deviation of numbers of any magnitude, of which some may be missing.
#ifndef CHORALE_ENGINE_DATA_COLUMN_STATISTICS_H_
#define CHORALE_ENGINE_DATA_COLUMN_STATISTICS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace chorale {

struct ColumnStatistics {
  int64_t count = 0;  // count of numbers that are not NaN
  double mean = 0;    // 0 if there are none
  // sqrt(sum (x - mean)^2 / count). If all numbers are equal, their magnitude |x|; 1 if they are
  // zero or there are none. So the value is a valid divisor, and scaled numbers do not depend on
  // the unit of the column.
  double std = 1;
};

// Ignores NaN. The statistics of finite numbers are finite, except that the standard deviation of
// numbers of both signs near the largest double is infinite. The mean of equal numbers is exact.
ColumnStatistics ComputeStatistics(absl::Span<const double> numbers);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_COLUMN_STATISTICS_H_
