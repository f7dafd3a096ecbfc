#include "engine/session/grouped_paths.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/ops/random.h"

namespace chorale {

GroupedPaths::GroupedPaths(const QueryGroups* groups, int64_t paths, int64_t first_path)
    : groups_(groups), paths_(paths), first_path_(first_path) {
  std::map<std::pair<int64_t, int64_t>, size_t> index;
  for (int64_t group = 0; group < groups->count(); ++group) {
    const auto [at, is_new] =
        index.try_emplace({groups->positions(group), groups->known(group)}, equal_groups_.size());
    if (is_new) equal_groups_.emplace_back();
    equal_groups_[at->second].groups.push_back(group);
  }
  int64_t first = 0;
  for (EqualGroups& equal : equal_groups_) {
    equal.first = first;
    first += static_cast<int64_t>(equal.groups.size()) * paths;
  }
}

std::vector<EqualPaths> GroupedPaths::lengths() const {
  std::vector<EqualPaths> lengths;
  lengths.reserve(equal_groups_.size());
  for (const EqualGroups& equal : equal_groups_) {
    lengths.push_back({groups_->positions(equal.groups.front()),
                       static_cast<int64_t>(equal.groups.size()) * paths_});
  }
  return lengths;
}

GroupPath GroupedPaths::At(int64_t index) const {
  const auto next =
      std::upper_bound(equal_groups_.begin(), equal_groups_.end(), index,
                       [](int64_t path, const EqualGroups& equal) { return path < equal.first; });
  const EqualGroups& equal = *std::prev(next);
  const auto groups = static_cast<int64_t>(equal.groups.size());
  const int64_t path = index - equal.first;
  return {equal.groups[path % groups], path / groups};
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

std::vector<int32_t> GroupedPaths::RandomOrders(uint64_t seed, int64_t first, int64_t count) const {
  std::vector<int32_t> orders;
  std::vector<int32_t> order;
  for (int64_t p = first; p < first + count; ++p) {
    const GroupPath path = At(p);
    const absl::Span<const int32_t> rows = groups_->rows(path.group);
    const int64_t known = groups_->known(path.group);
    orders.insert(orders.end(), rows.begin(), rows.begin() + known);
    order.resize(rows.size() - known);
    kernels::DrawOrder(seed, NumberOf(path), static_cast<int64_t>(order.size()), order.data());
    for (const int32_t i : order) orders.push_back(rows[known + i]);
  }
  return orders;
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
