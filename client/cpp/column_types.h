// Converts the text of a CSV file to typed columns.
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

// Parses a finite decimal number; nullopt for any other text.
std::optional<double> ParseNumber(absl::string_view text);

struct TypeOptions {
  // Texts of missing cells, besides the empty cell.
  absl::flat_hash_set<std::string> missing = {"NA", "N/A", "NaN", "nan", "null", "None", "?"};
  std::vector<std::string> numeric;      // names of columns that are numeric
  std::vector<std::string> categorical;  // names of columns that are categorical
};

struct TypedTable {
  DataFrame frame;  // the file's columns, in its order
  // Warnings for the user, e.g. that one cell made a column of numbers categorical.
  std::vector<std::string> notes;
};

// Types every column: as `options` says, else numeric if all cells that are not missing are
// numbers, else categorical. InvalidArgument, with line and column, if a column that `options`
// makes numeric has other cells; also if `options` names an unknown column or one column twice.
absl::StatusOr<TypedTable> InferTypes(const CsvTable& csv, const TypeOptions& options);

// Adds one column as `kind`. InvalidArgument, with line and column, if a cell of a numeric column
// is neither missing nor a number. Requires 0 <= column < csv.column_count().
absl::Status AddColumnAs(const CsvTable& csv, int64_t column, ColumnKind kind,
                         const absl::flat_hash_set<std::string>& missing, DataFrame* frame);

// A description of the columns for people: a line per column with its type, its range or number of
// categories, and its missing cells.
std::string DescribeColumns(const DataFrame& frame);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_COLUMN_TYPES_H_
