#include "engine/data/target_bound.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace chorale {

TargetBound TargetBound::Of(absl::Span<const double> values) {
  constexpr double kGap = 30;
  constexpr double kAgreement = 5;
  TargetBound bound;
  bound.bulk_ = Bulk::Of(values);
  if (bound.bulk_.everywhere()) return bound;
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(bound.bulk_.Distance(value));
  int64_t most = MostFarNumbers(static_cast<int64_t>(values.size()));
  if (bound.bulk_.atom().has_value()) {
    std::partial_sort(distances.begin(), distances.begin() + 2, distances.end(), std::greater<>());
    const bool agree = distances[0] <= kAgreement * distances[1];
    most = std::min<int64_t>(most, agree ? 1 : 2);
  }
  const FarNumbers far = FindFarNumbers(std::move(distances), kLeastLimit, kGap, most);
  if (far.count > 0) bound.limit_ = far.limit;
  return bound;
}

}  // namespace chorale
