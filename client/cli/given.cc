#include "client/cli/given.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/rows_file.h"

namespace chorale::client {
namespace {

int64_t CountKnown(const std::vector<double>& values) {
  return std::count_if(values.begin(), values.end(),
                       [](double value) { return !std::isnan(value); });
}

}  // namespace

void AddGivenFlag(CLI::App* command, bool* given, const std::string& effect) {
  command->add_flag(
      "--given", *given,
      absl::StrCat("The target column of ROWS has known values, and missing cells in the other "
                   "rows. ",
                   effect));
}

absl::StatusOr<std::vector<double>> TargetValues(const RowsOptions& options, const Rows& rows) {
  absl::StatusOr<std::vector<double>> values =
      NumberColumn(rows.csv, rows.context.target_column(), MarksOf(options.missing));
  if (values.ok()) return values;
  return absl::Status(values.status().code(),
                      absl::StrCat(options.file, ": ", values.status().message()));
}

bool SomeAreKnown(const std::vector<double>& values) {
  const int64_t known = CountKnown(values);
  return known > 0 && known < static_cast<int64_t>(values.size());
}

absl::StatusOr<v1::KnownValues> KnownValuesOf(const RowsOptions& options, const Rows& rows,
                                              bool given) {
  const std::string& target = rows.context.target_column();
  absl::StatusOr<std::vector<double>> values = TargetValues(options, rows);
  v1::KnownValues known;
  if (!given) {
    // A column with other cells than numbers does not contain values of the target.
    if (!values.ok() || !SomeAreKnown(*values)) return known;
    return absl::InvalidArgumentError(absl::StrCat(
        options.file, ": the target column '", target, "' has values in ", CountKnown(*values),
        " of ", values->size(),
        " rows: use --given to make results conditional on them, or remove the column to ignore "
        "them"));
  }
  RETURN_IF_ERROR(values.status());
  if (CountKnown(*values) == rows.csv.row_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.file, ": --given: the target column '", target,
                     "' has a value in every row, but at least one cell must be missing"));
  }
  for (size_t row = 0; row < values->size(); ++row) {
    if (std::isnan((*values)[row])) continue;
    known.add_rows(static_cast<int32_t>(row));
    known.add_values((*values)[row]);
  }
  return known;
}

void NoteKnown(const v1::KnownValues& known, const std::vector<double>& log_densities,
               const Environment& environment) {
  if (log_densities.empty()) return;
  environment.Note(absl::StrCat("log-density of the ", known.rows_size(),
                                " known values: ", log_densities.front()));
}

}  // namespace chorale::client
