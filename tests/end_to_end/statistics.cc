#include "tests/end_to_end/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace chorale::end_to_end {

double ExactMixture::Cdf(double y) const {
  double sum = 0;
  for (size_t j = 0; j < mean.size(); ++j) {
    sum += weight[j] * 0.5 * std::erfc(-(y - mean[j]) / (std[j] * std::sqrt(2.0)));
  }
  return sum;
}

double ExactMixture::LogDensity(double y) const {
  double sum = 0;
  for (size_t j = 0; j < mean.size(); ++j) {
    const double z = (y - mean[j]) / std[j];
    sum += weight[j] / (std[j] * std::sqrt(2 * M_PI)) * std::exp(-0.5 * z * z);
  }
  return std::log(sum);
}

double ChiSquareScore(const std::vector<double>& points, int64_t dims, int64_t bins) {
  const int64_t n = static_cast<int64_t>(points.size()) / dims;
  int64_t cells = 1;
  for (int64_t d = 0; d < dims; ++d) cells *= bins;
  std::vector<int64_t> counts(cells, 0);
  for (int64_t i = 0; i < n; ++i) {
    int64_t cell = 0;
    for (int64_t d = 0; d < dims; ++d) {
      const double u = points[i * dims + d];
      cell = cell * bins + std::clamp<int64_t>(static_cast<int64_t>(u * bins), 0, bins - 1);
    }
    ++counts[cell];
  }
  const double expected = static_cast<double>(n) / cells;
  double statistic = 0;
  for (const int64_t count : counts) {
    statistic += (count - expected) * (count - expected) / expected;
  }
  const double freedom = static_cast<double>(cells - 1);
  const double spread = 2.0 / (9.0 * freedom);
  return (std::cbrt(statistic / freedom) - (1 - spread)) / std::sqrt(spread);
}

double KolmogorovScore(const std::vector<double>& points, int64_t dims, int64_t dim) {
  std::vector<double> sorted;
  for (size_t i = dim; i < points.size(); i += dims) sorted.push_back(points[i]);
  std::sort(sorted.begin(), sorted.end());
  const double n = static_cast<double>(sorted.size());
  double distance = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    distance = std::max({distance, (i + 1) / n - sorted[i], sorted[i] - i / n});
  }
  return distance * std::sqrt(n);
}

}  // namespace chorale::end_to_end
