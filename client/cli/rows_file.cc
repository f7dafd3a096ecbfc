#include "client/cli/rows_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cpp/column_types.h"

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

}  // namespace

absl::StatusOr<TargetRows> FitRows(const CsvTable& csv, const v1::Context& context,
                                   const MissingTokens& missing) {
  RETURN_IF_ERROR(CheckColumns(csv, context));
  if (csv.row_count() == 0) return absl::InvalidArgumentError("the rows file has no rows");
  TargetRows rows;
  for (const v1::ColumnSummary& feature : context.features()) {
    const ColumnKind kind = feature.type() == v1::ColumnSummary::CATEGORICAL
                                ? ColumnKind::kCategorical
                                : ColumnKind::kNumeric;
    absl::Status status = AddColumnAs(csv, csv.Find(feature.name()), kind, missing, &rows.features);
    RETURN_IF_ERROR(status);
  }
  for (const std::string& name : csv.names()) {
    if (rows.features.Find(name) == nullptr) rows.dropped.push_back(name);
  }
  return rows;
}

absl::StatusOr<std::vector<double>> NumberColumn(const CsvTable& csv, const std::string& name,
                                                 const MissingTokens& missing) {
  const int64_t column = csv.Find(name);
  if (column < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no column '", name, "' in the file; it has: ", Quoted(csv.names())));
  }
  DataFrame frame;
  absl::Status status = AddColumnAs(csv, column, ColumnKind::kNumeric, missing, &frame);
  RETURN_IF_ERROR(status);
  return frame.columns().front().numbers;
}

}  // namespace chorale::client
