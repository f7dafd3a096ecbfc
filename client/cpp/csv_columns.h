// Converts the columns of a CSV file to a data frame. The server infers the types of columns.
#ifndef CHORALE_CLIENT_CPP_CSV_COLUMNS_H_
#define CHORALE_CLIENT_CPP_CSV_COLUMNS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text_cells.h"
#include "client/cpp/csv.h"
#include "client/cpp/data_frame.h"
#include "client/cpp/missing_marks.h"

namespace chorale::client {

struct ColumnOptions {
  MissingMarks missing;
  std::vector<std::string> numeric;      // the names of numeric columns
  std::vector<std::string> categorical;  // the names of categorical columns
  std::vector<std::string> dropped;      // the names of columns to drop
};

// Returns the columns of the file that are not dropped, in its order: strings, whose type the
// server infers, unless the options set their type. InvalidArgument, with line and column, if a
// column in `options.numeric` has cells that are not numbers; also if `options.numeric` or
// `options.categorical` names an unknown column, or both name the same.
absl::StatusOr<DataFrame> ReadColumns(const CsvTable& csv, const ColumnOptions& options);

// The functions below require 0 <= column < csv.column_count().

// Returns the cells [rows]; nullopt for missing cells.
std::vector<std::optional<std::string>> ReadCells(const CsvTable& csv, int64_t column,
                                                  const MissingMarks& missing);

// Parses the cells of a numeric column [rows] by NumberOfText (base/text_cells.h); NaN for missing
// cells. `type` is not kCategories. InvalidArgument, with line and column, for other texts.
absl::StatusOr<std::vector<double>> ReadNumbers(const CsvTable& csv, int64_t column, TextType type,
                                                const MissingMarks& missing);

// Returns a warning about cells of a categorical column that are missing by the default marks, such
// as "NA", because these may be categories; empty if there are none.
std::string NoteOnMarks(const CsvTable& csv, int64_t column, const MissingMarks& missing);

// "line 3, column 'size'"
std::string CellPlace(const CsvTable& csv, int64_t row, int64_t column);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CSV_COLUMNS_H_
