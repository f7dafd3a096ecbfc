#include "engine/session/query_groups.h"

#include <algorithm>

namespace chorale {

QueryGroups::QueryGroups(const RequestBase& request) : known_values_(&request.known) {
  const int64_t query_rows = request.query_rows.rows();
  if (request.group_sizes.empty()) {
    groups_.push_back({0, query_rows, 0});
  } else {
    int64_t first = 0;
    for (const int32_t size : request.group_sizes) {
      groups_.push_back({first, size, 0});
      first += size;
    }
  }
  group_of_.reserve(query_rows);
  for (int64_t g = 0; g < count(); ++g) group_of_.insert(group_of_.end(), groups_[g].rows, g);

  rows_.resize(query_rows);
  known_index_.resize(query_rows);
  unknown_index_.resize(query_rows);
  for (int64_t i = 0; i < known_values_->count(); ++i) {
    const int32_t row = known_values_->rows[i];
    Group& group = groups_[group_of_[row]];
    const int64_t at = group.first + group.known++;
    rows_[at] = row;
    known_index_[at] = i;
    unknown_index_[row] = -1;
  }
  int64_t unknown = 0;
  for (const Group& group : groups_) {
    int64_t at = group.first + group.known;
    for (int64_t row = group.first; row < group.first + group.rows; ++row) {
      if (unknown_index_[row] < 0) continue;
      unknown_index_[row] = unknown++;
      rows_[at++] = static_cast<int32_t>(row);
    }
  }
  in_order_ = count() == 1 && std::is_sorted(rows_.begin(), rows_.end());
}

}  // namespace chorale
