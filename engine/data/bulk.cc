#include "engine/data/bulk.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "engine/data/column_statistics.h"

namespace chorale {
namespace {

// The quantile at `p` of sorted numbers, linear between two of them. Halves, so that the difference
// of numbers of both signs does not overflow.
double Quantile(absl::Span<const double> sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + 2 * ((place - std::floor(place)) * (sorted[high] / 2 - sorted[low] / 2));
}

// 1.2533 times the mean of the smallest 99 % of |x - centre|.
double ScaleOfDeviations(absl::Span<const double> numbers, double centre) {
  std::vector<double> deviations;
  deviations.reserve(numbers.size());
  for (const double x : numbers) deviations.push_back(std::abs(x - centre));
  std::sort(deviations.begin(), deviations.end());
  deviations.resize(deviations.size() * 99 / 100);
  if (deviations.empty()) return 0;
  constexpr double kOfNormal = 1.2533;  // sqrt(pi / 2)
  double mean = 0;
  for (const double x : deviations) mean += x / static_cast<double>(deviations.size());
  return kOfNormal * mean;
}

}  // namespace

Bulk Bulk::Of(absl::Span<const double> numbers) {
  std::vector<double> sorted;
  sorted.reserve(numbers.size());
  for (const double x : numbers) {
    if (!std::isnan(x)) sorted.push_back(x);
  }
  Bulk bulk;
  if (sorted.empty()) return bulk;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front() == sorted.back()) return bulk;

  bulk.centre_ = Quantile(sorted, 0.5);
  constexpr double kQuartilesOfNormal = 1.349;
  bulk.scale_ = (Quantile(sorted, 0.75) - Quantile(sorted, 0.25)) / kQuartilesOfNormal;
  if (bulk.scale_ == 0) bulk.scale_ = ScaleOfDeviations(sorted, bulk.centre_);
  bulk.all_but_constant_ = bulk.scale_ == 0;
  if (bulk.scale_ == 0) bulk.scale_ = ComputeStatistics(numbers).std;
  return bulk;
}

double Bulk::Distance(double x) const {
  const double half_distance = std::abs(x / 2 - centre_ / 2);  // the whole one may overflow
  return std::min(2 * (half_distance / scale_), std::numeric_limits<double>::max());
}

double Bulk::SquashBeyond(double x) const {
  return At(kReach + std::log1p(Distance(x) - kReach), x);
}

}  // namespace chorale
