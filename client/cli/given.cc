#include "client/cli/given.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/numbers.h"
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

absl::Status CheckUnmixed(const RowsOptions& options, const Rows& rows) {
  const CsvTable& csv = rows.csv;
  const std::string& target = rows.context.target_column();
  const int64_t column = csv.Find(target);
  if (column < 0) return absl::OkStatus();
  const MissingMarks missing = MarksOf(options.missing);
  const bool valid = TargetValues(options, rows).ok();
  int64_t known = 0;
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (missing.Matches(cell)) continue;
    double number = 0.0;  // may be infinite
    // A column with other cells than numbers does not contain values of the target.
    if (!valid && !absl::SimpleAtod(cell, &number)) return absl::OkStatus();
    ++known;
  }
  if (known == 0 || known == csv.row_count()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      options.file, ": the target column '", target, "' has values in ", known, " of ",
      csv.row_count(),
      " rows: use --given to make results conditional on them, or remove the column to ignore "
      "them"));
}

absl::StatusOr<v1::KnownValues> KnownValuesOf(const RowsOptions& options, const Rows& rows,
                                              const Environment& environment) {
  ASSIGN_OR_RETURN(const std::vector<double> values, TargetValues(options, rows));
  const int64_t count = CountKnown(values);
  if (count == rows.csv.row_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.file, ": --given: the target column '", rows.context.target_column(),
                     "' has a value in every row, but at least one cell must be missing"));
  }
  if (count == 0) {
    environment.Note(absl::StrCat(options.file, ": --given: no values of '",
                                  rows.context.target_column(),
                                  "' are known; the results are unconditional"));
  }
  v1::KnownValues known;
  for (size_t row = 0; row < values.size(); ++row) {
    if (std::isnan(values[row])) continue;
    known.add_rows(static_cast<int32_t>(row));
    known.add_values(values[row]);
  }
  return known;
}

void NoteKnown(const v1::KnownValues& known, const std::vector<double>& log_densities,
               const Environment& environment) {
  if (log_densities.empty()) return;
  const int count = known.rows_size();
  const double sum = std::accumulate(log_densities.begin(), log_densities.end(), 0.0);
  environment.Note(absl::StrCat("log-density of the ",
                                count == 1 ? "known value" : absl::StrCat(count, " known values"),
                                ": ", sum));
}

}  // namespace chorale::client
