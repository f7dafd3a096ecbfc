#include "engine/session/grouped_paths.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/ops/random.h"

namespace chorale {

GroupedPaths::GroupedPaths(const QueryGroups* groups, std::vector<int64_t> rounds,
                           int64_t first_path)
    : groups_(groups), first_path_(first_path) {
  std::map<std::pair<int64_t, int64_t>, size_t> index;
  for (int64_t group = 0; group < groups->count(); ++group) {
    const auto [at, is_new] =
        index.try_emplace({groups->positions(group), groups->known(group)}, equal_groups_.size());
    if (is_new) equal_groups_.emplace_back();
    equal_groups_[at->second].push_back(group);
  }
  int64_t first = 0;
  int64_t begin = 0;
  for (const int64_t end : rounds) {
    for (const EqualGroups& equal : equal_groups_) {
      segments_.push_back({first, &equal, begin, end - begin});
      first += static_cast<int64_t>(equal.size()) * (end - begin);
    }
    begin = end;
  }
}

std::vector<EqualPaths> GroupedPaths::lengths() const {
  std::vector<EqualPaths> lengths;
  lengths.reserve(segments_.size());
  for (const Segment& segment : segments_) {
    lengths.push_back({groups_->positions(segment.groups->front()),
                       static_cast<int64_t>(segment.groups->size()) * segment.paths});
  }
  return lengths;
}

GroupPath GroupedPaths::At(int64_t index) const {
  const auto next =
      std::upper_bound(segments_.begin(), segments_.end(), index,
                       [](int64_t path, const Segment& segment) { return path < segment.first; });
  const Segment& segment = *std::prev(next);
  const auto groups = static_cast<int64_t>(segment.groups->size());
  const int64_t path = index - segment.first;
  return {(*segment.groups)[path % groups], segment.first_path + path / groups};
}

std::vector<int32_t> GroupedPaths::GivenOrder(int64_t first, int64_t count) const {
  std::vector<int32_t> order;
  if (groups_->in_order()) return order;
  for (int64_t p = first; p < first + count; ++p) {
    const absl::Span<const int32_t> rows = groups_->rows(At(p).group);
    order.insert(order.end(), rows.begin(), rows.end());
  }
  return order;
}

std::vector<int32_t> GroupedPaths::RandomOrders(uint64_t seed, int64_t first, int64_t count,
                                                int64_t orders) const {
  std::vector<int32_t> of_paths;
  std::vector<int32_t> order;
  for (int64_t p = first; p < first + count; ++p) {
    GroupPath path = At(p);
    const bool reversed = path.path % orders % 2 == 1;
    if (reversed) --path.path;
    const absl::Span<const int32_t> rows = groups_->rows(path.group);
    const int64_t known = groups_->known(path.group);
    of_paths.insert(of_paths.end(), rows.begin(), rows.begin() + known);
    order.resize(rows.size() - known);
    kernels::DrawOrder(seed, NumberOf(path), static_cast<int64_t>(order.size()), order.data());
    if (reversed) std::reverse(order.begin(), order.end());
    for (const int32_t i : order) of_paths.push_back(rows[known + i]);
  }
  return of_paths;
}

std::vector<uint64_t> GroupedPaths::Numbers(int64_t first, int64_t count, Sampling sampling) const {
  std::vector<uint64_t> numbers(count);
  for (int64_t p = 0; p < count; ++p) numbers[p] = NumberOf(At(first + p), sampling);
  return numbers;
}

std::vector<int32_t> PredictedRows(const QueryGroups& groups) {
  std::vector<int32_t> predicted;
  predicted.reserve(groups.unknown());
  for (int64_t group = 0; group < groups.count(); ++group) {
    const absl::Span<const int32_t> rows = groups.rows(group).subspan(groups.known(group));
    predicted.insert(predicted.end(), rows.begin(), rows.end());
  }
  std::stable_sort(predicted.begin(), predicted.end(), [&](int32_t a, int32_t b) {
    return groups.known(groups.GroupOf(a)) < groups.known(groups.GroupOf(b));
  });
  return predicted;
}

std::vector<EqualPaths> PredictionLengths(const QueryGroups& groups,
                                          const std::vector<int32_t>& predicted_rows) {
  std::vector<EqualPaths> lengths;
  for (const int32_t row : predicted_rows) {
    const int64_t positions = groups.known(groups.GroupOf(row)) + 1;
    if (lengths.empty() || lengths.back().positions != positions) lengths.push_back({positions, 0});
    ++lengths.back().paths;
  }
  return lengths;
}

}  // namespace chorale
