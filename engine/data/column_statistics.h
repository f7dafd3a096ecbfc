// Mean and standard deviation of numbers of any magnitude, with missing ones.
#ifndef CHORALE_ENGINE_DATA_COLUMN_STATISTICS_H_
#define CHORALE_ENGINE_DATA_COLUMN_STATISTICS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace chorale {

struct ColumnStatistics {
  int64_t count = 0;  // numbers that are not NaN
  double mean = 0;    // 0 when there are none
  // sqrt(sum (x - mean)^2 / count). So that one can always divide by it, and a column in other
  // units is scaled to the same numbers: when all numbers are equal their magnitude |x|; 1 when
  // they are zero or there are none.
  double std = 1;
};

// Ignores NaN. Finite numbers give finite statistics, except that numbers of both signs near the
// largest double have an infinite standard deviation. All-equal numbers have exactly that mean.
ColumnStatistics ComputeStatistics(absl::Span<const double> numbers);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_COLUMN_STATISTICS_H_
