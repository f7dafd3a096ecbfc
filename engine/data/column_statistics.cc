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
  // The sum may overflow although the mean cannot. Divide first, at a small cost in accuracy.
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
  // Detected by comparison: a rounded mean would leave a tiny deviation, which z-scoring would
  // scale up to 1.
  if (low == high) {
    result.mean = low;
    if (low != 0) result.std = std::abs(low);
    return result;
  }
  result.mean = std::clamp(Mean(numbers, result.count), low, high);

  // Deviations are divided by the largest before they are squared, so that squares neither overflow
  // nor underflow.
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
  // The deviation underflows if the numbers are denormal and all but a few are equal.
  if (result.std == 0) result.std = scale;
  return result;
}

}  // namespace chorale
