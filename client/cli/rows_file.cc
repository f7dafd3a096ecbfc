#include "client/cli/rows_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text_cells.h"
#include "client/cpp/csv_columns.h"

namespace chorale::client {
namespace {

std::string Quoted(const std::vector<std::string>& names) {
  return absl::StrJoin(names, ", ", [](std::string* out, const std::string& name) {
    absl::StrAppend(out, "'", name, "'");
  });
}

absl::Status CheckColumns(const CsvTable& csv, const v1::Context& context) {
  std::vector<std::string> needed;
  std::vector<std::string> absent;
  for (const v1::ColumnSummary& feature : context.features()) {
    needed.push_back(feature.name());
    if (csv.Find(feature.name()) < 0) absent.push_back(feature.name());
  }
  if (absent.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("missing ", absent.size() == 1 ? "column " : "columns ", Quoted(absent),
                   "; the features of the context are: ", Quoted(needed)));
}

}  // namespace

absl::StatusOr<QueryRows> FitRows(const CsvTable& csv, const v1::Context& context,
                                  const MissingMarks& missing) {
  RETURN_IF_ERROR(CheckColumns(csv, context));
  if (csv.row_count() == 0) return absl::InvalidArgumentError("the file has a header but no rows");
  QueryRows rows;
  std::vector<bool> used(csv.column_count(), false);
  for (const v1::ColumnSummary& feature : context.features()) {
    const int64_t column = csv.Find(feature.name());
    if (used[column]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "column '", feature.name(), "' is in the context twice after text normalisation"));
    }
    used[column] = true;
    RETURN_IF_ERROR(rows.features.AddStrings(feature.name(), ReadCells(csv, column, missing)));
    if (feature.type() != v1::ColumnSummary::TYPE_CATEGORICAL) continue;
    std::string note = NoteOnMarks(csv, column, missing);
    if (!note.empty()) rows.notes.push_back(std::move(note));
  }
  for (int64_t column = 0; column < csv.column_count(); ++column) {
    if (!used[column]) rows.dropped.push_back(csv.names()[column]);
  }
  return rows;
}

absl::StatusOr<std::vector<double>> NumberColumn(const CsvTable& csv, const std::string& name,
                                                 const MissingMarks& missing) {
  const int64_t column = csv.Find(name);
  if (column < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no column '", name, "'; the columns are: ", Quoted(csv.names())));
  }
  TextCellCounter counter;
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (!missing.Matches(cell)) counter.Add(cell, row);
  }
  const TextType type = TypeOfTexts(counter.Finish());
  return ReadNumbers(csv, column, type == TextType::kCategories ? TextType::kNumbers : type,
                     missing);
}

}  // namespace chorale::client
