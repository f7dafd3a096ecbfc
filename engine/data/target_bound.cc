#include "engine/data/target_bound.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace chorale {
namespace {

// The count of the largest `most` distances before the last member of the first group of `size`
// distances that agree: with this member, the group would be complete. REQUIRES: there are more
// than `most` distances.
int64_t BeforeAGroup(std::vector<double> distances, int64_t size, int64_t most) {
  constexpr double kAgreement = 5;
  std::partial_sort(distances.begin(), distances.begin() + most, distances.end(), std::greater<>());
  for (int64_t last = size - 1; last < most; ++last) {
    if (distances[last - size + 1] <= kAgreement * distances[last]) return last;
  }
  return most;
}

}  // namespace

TargetBound TargetBound::Of(absl::Span<const double> values) {
  TargetBound bound;
  bound.bulk_ = Bulk::Of(values);
  if (bound.bulk_.everywhere()) return bound;
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(bound.bulk_.Distance(value));
  const bool beside_atom = bound.bulk_.atom().has_value();
  int64_t most = MostFarNumbers(static_cast<int64_t>(values.size()));
  if (beside_atom) most = std::min<int64_t>(most, 2);
  most = BeforeAGroup(distances, beside_atom ? 2 : 3, most);
  bound.limit_ = FindFarNumbers(std::move(distances), kLeastLimit, kGap, most).limit;
  return bound;
}

}  // namespace chorale
