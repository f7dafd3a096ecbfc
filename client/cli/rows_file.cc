#include "client/cli/rows_file.h"

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
  return absl::InvalidArgumentError(
      absl::StrCat("missing ", absent.size() == 1 ? "column " : "columns ", Quoted(absent),
                   "; the features of the context are: ", Quoted(needed)));
}

// Whether no result depends on the column. Earlier servers do not report this for all columns.
bool SaysNothing(const v1::ColumnSummary& feature, const v1::Context& context) {
  return feature.dropped() ||
         (context.row_count() > 0 && feature.missing_count() == context.row_count());
}

absl::Status AddFeature(const CsvTable& csv, int64_t column, const v1::ColumnSummary& feature,
                        const v1::Context& context, const MissingMarks& missing, QueryRows* rows) {
  if (feature.type() == v1::ColumnSummary::TYPE_NUMERIC) {
    absl::StatusOr<std::vector<double>> numbers =
        ReadNumbers(csv, column, DecodeMeaning(feature.meaning()), missing);
    if (numbers.ok()) return rows->features.AddNumeric(feature.name(), *std::move(numbers));
    if (!SaysNothing(feature, context)) return numbers.status();
    return AddCategories(csv, column, missing, feature.name(), &rows->features);
  }
  RETURN_IF_ERROR(AddCategories(csv, column, missing, feature.name(), &rows->features));
  const std::string note =
      NoteOnMarks(CountCells(csv, column, missing), absl::StrCat("column '", feature.name(), "'"));
  if (!note.empty()) rows->notes.push_back(note);
  return absl::OkStatus();
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
    RETURN_IF_ERROR(AddFeature(csv, column, feature, context, missing, &rows));
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
  return ReadNumbers(csv, column, TypeOfCells(CountCells(csv, column, missing)).meaning, missing);
}

}  // namespace chorale::client
