// Matches the columns of a request's query rows with the feature columns of its context.
#ifndef CHORALE_ENGINE_DATA_QUERY_COLUMNS_H_
#define CHORALE_ENGINE_DATA_QUERY_COLUMNS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
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
  bool left_out = false;               // uninformative; a request's column may have any type
  Meaning meaning = Meaning::kNumber;  // if numeric
  // If categorical: whether numbers can match a category (CategoryLookup::has_numbers).
  bool has_numbers = true;
};

// The columns of a table of query rows, in the order of a context's features. It refers to the
// columns of the table whose type is that of the context, which must outlive it, and owns the
// converted ones.
class QueryColumns {
 public:
  const Column& operator[](size_t feature) const { return *columns_[feature]; }
  size_t size() const { return columns_.size(); }

  // Appends the next feature's column.
  void Add(const Column* column) { columns_.push_back(column); }
  void AddConverted(Column column) {
    converted_.push_back(std::make_unique<Column>(std::move(column)));
    columns_.push_back(converted_.back().get());
  }

 private:
  std::vector<const Column*> columns_;  // [features]
  std::vector<std::unique_ptr<Column>> converted_;
};

// Whether to ignore columns of query rows that are not features of the context.
enum class ExtraColumns { kReject, kIgnore };

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

// Returns the columns of `query_rows` in the context's order and with its types. Columns may be in
// any order and are matched by name; names with equal normal forms are equal. Columns of another
// type are converted (ConvertColumn). Returns InvalidArgument, with the column and the expected
// columns or values, for missing columns, for extra columns unless they are ignored, for a table
// without rows, and for a column that cannot be converted, of another length, with infinities or
// with codes out of range.
absl::StatusOr<QueryColumns> MatchQueryRows(const FeatureColumns& context, const Table& query_rows,
                                            ExtraColumns extra = ExtraColumns::kReject);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_QUERY_COLUMNS_H_
