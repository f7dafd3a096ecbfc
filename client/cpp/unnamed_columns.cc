#include "client/cpp/unnamed_columns.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace chorale::client {
namespace {

bool IsEmpty(const CsvTable& table, int64_t column) {
  for (int64_t row = 0; row < table.row_count(); ++row) {
    if (!table.Cell(row, column).empty()) return false;
  }
  return true;
}

// Whether a column has consecutive integers: 0, 1, 2 or 1, 2, 3, or 250, 251, 252 in the last rows
// of a longer table.
bool CountsRows(const CsvTable& table, int64_t column) {
  int64_t first = 0;
  for (int64_t row = 0; row < table.row_count(); ++row) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(table.Cell(row, column), &number) || number < 0) return false;
    if (row == 0) first = number;
    if (number - row != first) return false;
  }
  return table.row_count() > 0;
}

// Whether a name is one that pandas gives to an unnamed column: "Unnamed: 0", or "Unnamed: 0.1" if
// the former exists.
bool IsNameOfPandas(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "Unnamed: ") || name.empty()) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  return std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == absl::string_view::npos;
  });
}

}  // namespace

absl::StatusOr<UnnamedColumns> FindUnnamedColumns(const CsvTable& table) {
  UnnamedColumns unnamed;
  unnamed.left_out.resize(table.column_count(), false);
  for (int64_t column = 0; column < table.column_count(); ++column) {
    const std::string& name = table.names()[column];
    std::string note;
    if (IsNameOfPandas(name)) {
      if (!CountsRows(table, column)) continue;
      note = absl::StrCat("column '", name,
                          "' has a name that pandas gives to unnamed columns, and counts the "
                          "rows from ",
                          table.Cell(0, column), ": dropped as an index; to keep it, rename it");
    } else if (!name.empty()) {
      continue;
    } else if (IsEmpty(table, column)) {
      note = absl::StrCat("column ", column + 1, " has neither a name nor values: dropped");
    } else if (column == 0 && CountsRows(table, column)) {
      note = absl::StrCat("the first column has no name and counts the rows from ",
                          table.Cell(0, column), ": dropped as an index; to keep it, name it");
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("column ", column + 1,
                       " of the header has no name: name it, or write the file without this "
                       "column (pandas: to_csv(..., index=False); R: row.names = FALSE)"));
    }
    unnamed.left_out[column] = true;
    unnamed.notes.push_back(std::move(note));
  }
  return unnamed;
}

}  // namespace chorale::client
