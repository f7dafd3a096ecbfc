// Matches the columns of a request's query rows with the feature columns of its context.
#ifndef CHORALE_ENGINE_DATA_QUERY_COLUMNS_H_
#define CHORALE_ENGINE_DATA_QUERY_COLUMNS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/table.h"

namespace chorale {

// The name of a request's table in the public API; errors begin with it.
inline constexpr absl::string_view kQueryTable = "rows";

struct FeatureColumn {
  std::string name;
  ColumnType type = ColumnType::kNumeric;
  bool left_out = false;  // uninformative; a request's column may have any type
};

// Finds the feature columns of a context by name: first by equal bytes, then by equal normal form
// (base/normal_text.h). Created once per context, so that the cost of a request depends only on its
// own names. Immutable.
class FeatureColumns {
 public:
  FeatureColumns() = default;
  // REQUIRES: the names are distinct.
  explicit FeatureColumns(std::vector<FeatureColumn> columns);

  const std::vector<FeatureColumn>& columns() const { return columns_; }
  std::optional<size_t> Find(const std::string& name) const;

 private:
  std::vector<FeatureColumn> columns_;
  absl::flat_hash_map<std::string, size_t> by_name_;
  // For names that differ from their normal form: the normal form, and its first column.
  absl::flat_hash_map<std::string, size_t> by_normal_text_;
};

// Returns the columns of `query_rows` in the context's order. Columns may be in any order and are
// matched by name; names with equal normal forms are equal. Returns InvalidArgument, with the
// column and the expected columns or values, for missing and extra columns, a table without rows,
// and a column of the wrong type, of another length, with infinities or with codes out of range.
absl::StatusOr<std::vector<const Column*>> MatchQueryRows(const FeatureColumns& context,
                                                          const Table& query_rows);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_QUERY_COLUMNS_H_
