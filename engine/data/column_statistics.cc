#include "engine/data/column_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace chorale {
namespace {

double Mean(absl::Span<const double> numbers, int64_t count) {
  double sum = 0;
  for (const double x : numbers) {
    if (!std::isnan(x)) sum += x;
  }
  if (std::isfinite(sum)) return sum / static_cast<double>(count);
  // The sum overflows although the mean cannot: divide first, for a little accuracy.
  double mean = 0;
  for (const double x : numbers) {
    if (!std::isnan(x)) mean += x / static_cast<double>(count);
  }
  return mean;
}

}  // namespace

ColumnStatistics ComputeStatistics(absl::Span<const double> numbers) {
  ColumnStatistics result;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double x : numbers) {
    if (std::isnan(x)) continue;
    ++result.count;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  if (result.count == 0) return result;
  // Told apart by comparison: rounding in the mean would leave a tiny deviation, and z-scoring
  // would blow that up to 1.
  if (low == high) {
    result.mean = low;
    if (low != 0) result.std = std::abs(low);
    return result;
  }
  result.mean = std::clamp(Mean(numbers, result.count), low, high);

  // Deviations are squared relative to the largest, so that squares neither overflow nor vanish.
  const double scale = std::max(high - result.mean, result.mean - low);
  if (!std::isfinite(scale)) {
    result.std = std::numeric_limits<double>::infinity();
    return result;
  }
  double squares = 0;
  for (const double x : numbers) {
    if (std::isnan(x)) continue;
    const double relative = (x - result.mean) / scale;
    squares += relative * relative;
  }
  result.std = scale * std::sqrt(squares / static_cast<double>(result.count));
  // It underflows when the numbers are the smallest there are and all but a few are equal.
  if (result.std == 0) result.std = scale;
  return result;
}

}  // namespace chorale
