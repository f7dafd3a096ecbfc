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
  std::vector<std::string> numeric;      // names of columns that are numeric
  std::vector<std::string> categorical;  // names of columns that are categorical
};

struct TypedTable {
  DataFrame frame;  // the file's columns, in its order
  // What may not have been meant, as column_notes.h tells it, each with its column.
  std::vector<ColumnNote> notes;
};

// Types every column: as `options` says, else numeric if it has numbers and all other cells are
// missing, or if it is empty; numeric, too, if all cells that are not missing are "true" and
// "false" in any case (booleans), some of them perhaps 0 and 1, or dates that ParseDate reads; else
// categorical. InvalidArgument, with line and column, if a column that `options` makes numeric has
// cells that are no numbers; also if `options` names an unknown column or one column twice.
absl::StatusOr<TypedTable> InferTypes(const CsvTable& csv, const TypeOptions& options);

// Reads the cells of a numeric column, [rows]; NaN if missing. A cell is a number, or what its
// meaning has in text: a date that ParseDate reads, or a word for true or false
// (base/truth_word.h); of booleans the numbers are 0 and 1. InvalidArgument, with line and column,
// if a cell is none of these, nor missing. Requires 0 <= column < csv.column_count().
absl::StatusOr<std::vector<double>> ReadNumbers(const CsvTable& csv, int64_t column,
                                                Meaning meaning, const MissingMarks& missing);

// Adds one column of categories, called `name`. Requires 0 <= column < csv.column_count().
absl::Status AddCategories(const CsvTable& csv, int64_t column, const MissingMarks& missing,
                           const std::string& name, DataFrame* frame);

// A description of the columns for people: a line per column with its type, its range or number of
// categories, and its missing cells.
std::string DescribeColumns(const DataFrame& frame);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_COLUMN_TYPES_H_
