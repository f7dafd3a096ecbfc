#include "client/cli/rows_file.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cpp/column_notes.h"
#include "client/cpp/column_types.h"
#include "client/cpp/table_codec.h"

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
  return absl::InvalidArgumentError(absl::StrCat(absent.size() == 1 ? "column " : "columns ",
                                                 Quoted(absent), " missing in the rows file; the ",
                                                 "context needs: ", Quoted(needed)));
}

bool IsEmptyInContext(const v1::ColumnSummary& feature, const v1::Context& context) {
  return context.row_count() > 0 && feature.missing_count() == context.row_count();
}

// Adds a column without a value.
absl::Status AddEmptyColumn(const CsvTable& csv, int64_t column, const std::string& name,
                            ColumnKind kind, TargetRows* rows) {
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    if (csv.Cell(row, column).empty()) continue;
    rows->notes.push_back(
        absl::StrCat("column '", name, "' is empty in the context, so its cells say nothing"));
    break;
  }
  if (kind == ColumnKind::kCategorical) {
    return rows->features.AddCategorical(name,
                                         std::vector<std::optional<std::string>>(csv.row_count()));
  }
  return rows->features.AddNumeric(
      name, std::vector<double>(csv.row_count(), std::numeric_limits<double>::quiet_NaN()));
}

// Notes on the column that was added last, as far as the context's summary tells.
void NoteUnknownCategories(const CsvTable& csv, const v1::ColumnSummary& feature,
                           TargetRows* rows) {
  const DataColumn& column = rows->features.columns().back();
  const auto known = static_cast<int64_t>(feature.category_count());
  const auto asked = static_cast<int64_t>(column.categories.size());
  if (known > 0 && asked > known) {
    rows->notes.push_back(absl::StrCat(
        "column '", column.name, "' has ", asked, " categories, but in the context ", known,
        ": at least ", asked - known, asked - known == 1 ? " is" : " are", " unknown there"));
  }
  for (size_t row = 0; row < column.codes.size(); ++row) {
    const int32_t code = column.codes[row];
    if (code == kMissingCategory) continue;
    const size_t bytes = column.categories[code].size();
    if (bytes <= kMaxTextBytes) continue;
    rows->notes.push_back(absl::StrCat("line ", csv.Line(static_cast<int64_t>(row)), ", column '",
                                       column.name, "': a text of ", bytes,
                                       " bytes is unknown to the context, whose categories have ",
                                       kMaxTextBytes, " at most"));
    return;
  }
}

absl::Status AddFeature(const CsvTable& csv, int64_t column, const v1::ColumnSummary& feature,
                        const MissingMarks& missing, TargetRows* rows) {
  const bool categorical = feature.type() == v1::ColumnSummary::CATEGORICAL;
  absl::Status status =
      AddColumnAs(csv, column, categorical ? ColumnKind::kCategorical : ColumnKind::kNumeric,
                  missing, feature.name(), &rows->features);
  if (!status.ok() || !categorical) return status;
  const std::string note =
      NoteOnMarks(CountCells(csv, column, missing), absl::StrCat("column '", feature.name(), "'"));
  if (!note.empty()) rows->notes.push_back(note);
  NoteUnknownCategories(csv, feature, rows);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TargetRows> FitRows(const CsvTable& csv, const v1::Context& context,
                                   const MissingMarks& missing) {
  RETURN_IF_ERROR(CheckColumns(csv, context));
  if (csv.row_count() == 0) return absl::InvalidArgumentError("the rows file has no rows");
  TargetRows rows;
  std::vector<bool> used(csv.column_count(), false);
  for (const v1::ColumnSummary& feature : context.features()) {
    const int64_t column = csv.Find(feature.name());
    if (used[column]) {
      return absl::InvalidArgumentError(
          absl::StrCat("column '", feature.name(), "' is in the context in two forms of one text"));
    }
    used[column] = true;
    const ColumnKind kind = feature.type() == v1::ColumnSummary::CATEGORICAL
                                ? ColumnKind::kCategorical
                                : ColumnKind::kNumeric;
    absl::Status status = IsEmptyInContext(feature, context)
                              ? AddEmptyColumn(csv, column, feature.name(), kind, &rows)
                              : AddFeature(csv, column, feature, missing, &rows);
    RETURN_IF_ERROR(status);
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
        absl::StrCat("no column '", name, "' in the file; it has: ", Quoted(csv.names())));
  }
  DataFrame frame;
  absl::Status status =
      AddColumnAs(csv, column, ColumnKind::kNumeric, missing, csv.names()[column], &frame);
  RETURN_IF_ERROR(status);
  return frame.columns().front().numbers;
}

}  // namespace chorale::client
