#include "engine/data/bulk.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace chorale {
namespace {

constexpr double kQuartilesOfNormal = 1.349;

// Quantile `p` of sorted numbers, with linear interpolation. Halves the operands, so that the
// difference of two numbers of opposite sign does not overflow.
double Quantile(absl::Span<const double> sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + 2 * ((place - std::floor(place)) * (sorted[high] / 2 - sorted[low] / 2));
}

double RobustDeviation(absl::Span<const double> sorted) {
  return (Quantile(sorted, 0.75) - Quantile(sorted, 0.25)) / kQuartilesOfNormal;
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

  bulk.low_ = bulk.high_ = Quantile(sorted, 0.5);
  bulk.all_but_constant_ = false;
  const double scale = RobustDeviation(sorted);
  if (scale > 0) {
    bulk.scale_ = scale;
    return bulk;
  }
  const size_t count = sorted.size();
  bulk.atom_ = bulk.low_;
  std::erase(sorted, bulk.low_);
  bulk.all_but_constant_ = count - sorted.size() >= count * 99 / 100;
  bulk.FindBeside(std::move(sorted));
  return bulk;
}

void Bulk::FindBeside(std::vector<double> others) {
  constexpr int kMostAtoms = 3;
  for (int atoms = 1; atoms <= kMostAtoms; ++atoms) {
    if (others.empty() || others.front() == others.back()) return;
    const double median = Quantile(others, 0.5);
    low_ = std::min(low_, median);
    high_ = std::max(high_, median);
    const double scale = RobustDeviation(others);
    if (scale > 0) {
      scale_ = scale;
      return;
    }
    std::erase(others, median);
  }
}

double Bulk::Distance(double x) const {
  if (x >= low_ && x <= high_) return 0;
  const double end = x > high_ ? high_ : low_;
  const double half_distance = std::abs(x / 2 - end / 2);  // the distance may overflow
  return std::min(2 * (half_distance / scale_), std::numeric_limits<double>::max());
}

double Bulk::SquashBeyond(double x) const {
  return At(kReach + std::log1p(Distance(x) - kReach), x);
}

int64_t MostFarNumbers(int64_t numbers) {
  constexpr int64_t kOneIn = 50;
  return std::min(std::max<int64_t>(1, numbers / kOneIn), numbers - 1);
}

FarNumbers FindFarNumbers(std::vector<double> distances, double least, double gap, int64_t most) {
  std::partial_sort(distances.begin(), distances.begin() + most + 1, distances.end(),
                    std::greater<>());
  for (int64_t count = most; count > 0; --count) {
    const double limit = std::max(least, distances[count]);
    if (distances[count - 1] > gap * limit) return {count, limit};
  }
  return {0, std::max(least, distances.front())};
}

}  // namespace chorale
