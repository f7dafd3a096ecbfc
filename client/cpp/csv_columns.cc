#include "client/cpp/csv_columns.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/status_macros.h"

namespace chorale::client {
namespace {

using Names = absl::flat_hash_set<absl::string_view>;

absl::Status CheckTypes(const CsvTable& csv, const ColumnOptions& options, const Names& numeric) {
  for (const auto* names : {&options.numeric, &options.categorical}) {
    for (const std::string& name : *names) {
      if (csv.Find(name) >= 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("no column '", name, "', but its type is set"));
    }
  }
  for (const std::string& name : options.categorical) {
    if (!numeric.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("the type of column '", name, "' is set twice"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DataFrame> ReadColumns(const CsvTable& csv, const ColumnOptions& options) {
  const Names numeric(options.numeric.begin(), options.numeric.end());
  const Names categorical(options.categorical.begin(), options.categorical.end());
  const Names dropped(options.dropped.begin(), options.dropped.end());
  RETURN_IF_ERROR(CheckTypes(csv, options, numeric));
  DataFrame frame;
  for (int64_t column = 0; column < csv.column_count(); ++column) {
    const std::string& name = csv.names()[column];
    if (dropped.contains(name)) continue;
    if (numeric.contains(name)) {
      ASSIGN_OR_RETURN(std::vector<double> numbers,
                       ReadNumbers(csv, column, TextType::kNumbers, options.missing));
      RETURN_IF_ERROR(frame.AddNumeric(name, std::move(numbers)));
    } else if (categorical.contains(name)) {
      RETURN_IF_ERROR(frame.AddCategorical(name, ReadCells(csv, column, options.missing)));
    } else {
      RETURN_IF_ERROR(frame.AddStrings(name, ReadCells(csv, column, options.missing)));
    }
  }
  return frame;
}

std::vector<std::optional<std::string>> ReadCells(const CsvTable& csv, int64_t column,
                                                  const MissingMarks& missing) {
  std::vector<std::optional<std::string>> cells(csv.row_count());
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (!missing.Matches(cell)) cells[row] = std::string(cell);
  }
  return cells;
}

absl::StatusOr<std::vector<double>> ReadNumbers(const CsvTable& csv, int64_t column, TextType type,
                                                const MissingMarks& missing) {
  std::vector<double> numbers(csv.row_count(), std::numeric_limits<double>::quiet_NaN());
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (missing.Matches(cell)) continue;
    const std::optional<double> number = NumberOfText(cell, type);
    if (!number.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(CellPlace(csv, row, column), ": ", QuotedText(cell),
                       " is not a finite number, but the column is numeric",
                       LooksLikeNumber(cell) ? "; write numbers like -1234.5" : ""));
    }
    numbers[row] = *number;
  }
  return numbers;
}

std::string NoteOnMarks(const CsvTable& csv, int64_t column, const MissingMarks& missing) {
  std::vector<std::string> marks;
  int64_t cells = 0;
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (!missing.MatchesDefault(cell)) continue;
    ++cells;
    std::string mark = QuotedText(cell);
    if (std::find(marks.begin(), marks.end(), mark) == marks.end()) marks.push_back(mark);
  }
  if (cells == 0) return "";
  return absl::StrCat("column '", csv.names()[column], "' is categorical, and ", cells,
                      " of its cells are read as missing: ", absl::StrJoin(marks, ", "),
                      "; if these are categories, use --missing ''");
}

std::string CellPlace(const CsvTable& csv, int64_t row, int64_t column) {
  return absl::StrCat("line ", csv.Line(row), ", column '", csv.names()[column], "'");
}

}  // namespace chorale::client
