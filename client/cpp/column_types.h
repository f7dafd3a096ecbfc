// Converts the text of a CSV file to typed columns.
#ifndef CHORALE_CLIENT_CPP_COLUMN_TYPES_H_
#define CHORALE_CLIENT_CPP_COLUMN_TYPES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/column_notes.h"
#include "client/cpp/csv.h"
#include "client/cpp/data_frame.h"
#include "client/cpp/missing_marks.h"

namespace chorale::client {

struct TypeOptions {
  MissingMarks missing;
  std::vector<std::string> numeric;      // the names of numeric columns
  std::vector<std::string> categorical;  // the names of categorical columns
};

struct TypedTable {
  DataFrame frame;                // the columns in the order of the file
  std::vector<ColumnNote> notes;  // warnings; see column_notes.h
};

// Determines the type of each column. `options` take precedence. A column is numeric if all cells
// that are not missing are numbers, or if it is empty. It is also numeric if all cells that are not
// missing are "true" and "false" regardless of case (booleans; some may be 0 and 1), or dates that
// ParseDate parses. Other columns are categorical. InvalidArgument, with line and column, if a
// column in `options.numeric` has cells that are not numbers; also if `options` name an unknown
// column, or a column twice.
absl::StatusOr<TypedTable> InferTypes(const CsvTable& csv, const TypeOptions& options);

// Reads the cells of a numeric column [rows]; NaN if missing. A cell is a number, or text in the
// notation of `meaning`: a date that ParseDate parses, or a word for true or false
// (base/truth_word.h). Numbers in a column of booleans are 0 or 1. InvalidArgument, with line and
// column, for other cells. Requires 0 <= column < csv.column_count().
absl::StatusOr<std::vector<double>> ReadNumbers(const CsvTable& csv, int64_t column,
                                                Meaning meaning, const MissingMarks& missing);

// Adds a categorical column with the name `name`. Requires 0 <= column < csv.column_count().
absl::Status AddCategories(const CsvTable& csv, int64_t column, const MissingMarks& missing,
                           const std::string& name, DataFrame* frame);

// Returns a human-readable description of the columns: a line for each column with its type, its
// range or number of categories, and its missing cells.
std::string DescribeColumns(const DataFrame& frame);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_COLUMN_TYPES_H_
