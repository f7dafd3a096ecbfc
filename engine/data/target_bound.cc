#include "engine/data/target_bound.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace chorale {

TargetBound TargetBound::Of(absl::Span<const double> values) {
  constexpr double kGap = 30;
  constexpr int64_t kOneWrongIn = 50;
  TargetBound bound;
  bound.bulk_ = Bulk::Of(values);
  if (bound.bulk_.all_but_constant()) return bound;
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(bound.bulk_.Distance(value));
  const auto n = static_cast<int64_t>(values.size());
  const int64_t most = std::min(std::max<int64_t>(1, n / kOneWrongIn), n - 1);
  std::partial_sort(distances.begin(), distances.begin() + most + 1, distances.end(),
                    std::greater<>());
  for (int64_t wrong = most; wrong > 0; --wrong) {
    const double limit = std::max(kLeastLimit, distances[wrong]);
    if (distances[wrong - 1] > kGap * limit) {
      bound.limit_ = limit;
      break;
    }
  }
  return bound;
}

}  // namespace chorale
