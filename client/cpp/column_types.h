// From the text of a CSV file to typed columns.
#ifndef CHORALE_CLIENT_CPP_COLUMN_TYPES_H_
#define CHORALE_CLIENT_CPP_COLUMN_TYPES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/csv.h"
#include "client/cpp/data_frame.h"

namespace chorale::client {

// A finite decimal number and nothing else; nullopt otherwise.
std::optional<double> ParseNumber(absl::string_view text);

struct TypeOptions {
  // Cells that mean "missing", besides the empty cell.
  absl::flat_hash_set<std::string> missing = {"NA", "N/A", "NaN", "nan", "null", "None", "?"};
  std::vector<std::string> numeric;      // columns to read as numbers
  std::vector<std::string> categorical;  // columns to read as categories
};

struct TypedTable {
  DataFrame frame;  // the file's columns, in its order
  // What a user should look at, e.g. that one cell made a column of numbers categorical.
  std::vector<std::string> notes;
};

// Types every column: numeric when every cell that is not missing is a number, else categorical,
// unless `options` says which. InvalidArgument naming line and column when a column that was said
// to be numeric holds something else, or when `options` names a column that is not there, or twice.
absl::StatusOr<TypedTable> InferTypes(const CsvTable& csv, const TypeOptions& options);

// Types one column as told. InvalidArgument naming line and column when a cell of a numeric column
// is neither missing nor a number. Requires 0 <= column < csv.column_count().
absl::Status AddColumnAs(const CsvTable& csv, int64_t column, ColumnKind kind,
                         const absl::flat_hash_set<std::string>& missing, DataFrame* frame);

// What was made of a table, for people: a line per column with type, range or number of
// categories, and missing cells.
std::string DescribeColumns(const DataFrame& frame);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_COLUMN_TYPES_H_
