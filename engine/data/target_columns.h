// Matches the targets of a request with the feature columns of its context.
#ifndef CHORALE_ENGINE_DATA_TARGET_COLUMNS_H_
#define CHORALE_ENGINE_DATA_TARGET_COLUMNS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/table.h"

namespace chorale {

// What the public API calls a request's table; errors begin with it.
inline constexpr absl::string_view kTargetTable = "targets";

struct FeatureColumn {
  std::string name;
  ColumnType type = ColumnType::kNumeric;
  bool left_out = false;  // it says nothing: whatever type a request has there is right
};

// The feature columns of a context by name: by the same bytes first, else by what looks equal
// (base/normal_text.h). Made once for a context, so that a request costs what its own names cost.
// Immutable.
class FeatureColumns {
 public:
  FeatureColumns() = default;
  // REQUIRES: no two have the same name.
  explicit FeatureColumns(std::vector<FeatureColumn> columns);

  const std::vector<FeatureColumn>& columns() const { return columns_; }
  std::optional<size_t> Find(const std::string& name) const;

 private:
  std::vector<FeatureColumn> columns_;
  absl::flat_hash_map<std::string, size_t> by_name_;
  // Of those whose names are not their own normal forms: these, and the first of each.
  absl::flat_hash_map<std::string, size_t> by_normal_text_;
};

// The columns of `targets` in the context's order. They are matched by name, in any order, where
// names that look equal are equal; missing and extra columns are refused, and so is a table without
// rows and a column of the wrong type, of another length, with infinities or with codes out of
// range. InvalidArgument names the column and what is expected.
absl::StatusOr<std::vector<const Column*>> MatchTargets(const FeatureColumns& context,
                                                        const Table& targets);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_TARGET_COLUMNS_H_
