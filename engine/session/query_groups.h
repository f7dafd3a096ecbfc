// The groups of the query rows of a request, and the values that are known.
#ifndef CHORALE_ENGINE_SESSION_QUERY_GROUPS_H_
#define CHORALE_ENGINE_SESSION_QUERY_GROUPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/api/request.h"

namespace chorale {

// Each group g of the G groups has P_g query rows, of which the values of N_g are known, and paths
// of its own with these rows. Immutable.
class QueryGroups {
 public:
  // REQUIRES: the known rows and the sizes of the groups are valid; `request` outlives this object.
  explicit QueryGroups(const RequestBase& request);

  int64_t count() const { return static_cast<int64_t>(groups_.size()); }  // G
  // U: the rows of all groups whose values are not known.
  int64_t unknown() const { return query_rows() - known_values_->count(); }
  // The index of a row among those whose values are not known, in ascending order. REQUIRES: its
  // value is not known.
  int64_t UnknownIndex(int32_t row) const { return unknown_index_[row]; }
  int64_t GroupOf(int32_t row) const { return group_of_[row]; }

  // [P_g]: the query row at each position of the paths of a group: the rows whose values are known,
  // in the order in which they are given, then the others in ascending order.
  absl::Span<const int32_t> rows(int64_t group) const {
    return absl::MakeConstSpan(rows_).subspan(groups_[group].first, positions(group));
  }
  int64_t positions(int64_t group) const { return groups_[group].rows; }  // P_g
  int64_t known(int64_t group) const { return groups_[group].known; }     // N_g
  // Returns true if all paths have all query rows in their order.
  bool in_order() const { return in_order_; }

  // The known value at position i < N_g of a group, on one of its paths, or for one vector.
  double KnownValue(int64_t group, int64_t path, int64_t i) const {
    return known_values_->value(path, known_index_[groups_[group].first + i]);
  }

 private:
  struct Group {
    int64_t first = 0;  // row
    int64_t rows = 0;
    int64_t known = 0;
  };
  int64_t query_rows() const { return static_cast<int64_t>(rows_.size()); }

  const KnownValues* known_values_;
  std::vector<Group> groups_;
  std::vector<int64_t> group_of_;       // [T]
  std::vector<int32_t> rows_;           // [T]: the rows of each group at its positions
  std::vector<int64_t> known_index_;    // [T]: of the known rows in rows_, in KnownValues
  std::vector<int64_t> unknown_index_;  // [T]; -1 for known rows
  bool in_order_ = false;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_QUERY_GROUPS_H_
