// chorale append
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/context_report.h"
#include "client/cpp/csv_columns.h"
#include "client/cpp/status_from_grpc.h"

namespace chorale::client {
namespace {

struct AppendArguments {
  RowsOptions rows;
  std::optional<int64_t> first_row;
  std::string etag;
  bool drop_missing_targets = false;
  bool validate_only = false;
};

// Adds the target column of the file to the rows. InvalidArgument, with the line, if a cell is not
// a number, or is missing and its row is not to be dropped.
absl::Status AddTarget(const AppendArguments& arguments, Rows* rows) {
  const CsvTable& csv = rows->csv;
  const std::string& target = rows->context.target_column();
  ASSIGN_OR_RETURN(std::vector<double> values,
                   NumberColumn(csv, target, MarksOf(arguments.rows.missing)));
  const auto missing = absl::c_find_if(values, [](double value) { return std::isnan(value); });
  if (missing != values.end() && !arguments.drop_missing_targets) {
    return absl::InvalidArgumentError(
        absl::StrCat(CellPlace(csv, missing - values.begin(), csv.Find(target)),
                     ": the value is missing, but a target requires a value in every row; "
                     "--drop-missing-targets drops rows without a value"));
  }
  return rows->features.AddNumeric(target, std::move(values));
}

// Returns the error of a call that may have appended the rows, with the way to repeat it. Its exit
// code is not that of temporary errors: the same command would append the rows twice.
absl::Status WithRepetition(const absl::Status& error, int64_t first_row) {
  const bool late = absl::IsDeadlineExceeded(error);
  const absl::StatusCode code =
      absl::IsCancelled(error) ? absl::StatusCode::kCancelled : absl::StatusCode::kUnknown;
  return absl::Status(
      code, absl::StrCat(error.message(),
                         "; the rows may have been appended: repeat the command with --first-row ",
                         first_row, late ? " and a longer --timeout" : ""));
}

absl::Status RunAppend(const AppendArguments& arguments, Environment* environment) {
  const std::string& id = arguments.rows.context;
  const std::string& file = arguments.rows.file;
  ASSIGN_OR_RETURN(Rows rows, LoadRows(arguments.rows, TargetColumn::kUsed, environment));
  if (const absl::Status status = AddTarget(arguments, &rows); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
  }
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  const AppendOptions options{
      .first_row = arguments.first_row.value_or(rows.context.row_count()),
      .etag = arguments.etag,
      .missing_targets =
          arguments.drop_missing_targets ? MissingTargets::kDrop : MissingTargets::kReject,
      .validate_only = arguments.validate_only,
  };
  const absl::StatusOr<AppendedRows> appended =
      client->AppendRows(id, rows.features, options, environment->call());
  if (OutcomeUnknown(appended.status())) {
    return WithRepetition(appended.status(), *options.first_row);
  }
  RETURN_IF_ERROR(WithLine(appended.status(), file, rows));
  NoteWarnings(appended->warnings, *environment);
  if (arguments.validate_only) {
    environment->Note(
        absl::StrCat("the rows are valid and were not appended; while they are encoded, the whole "
                     "context needs ",
                     EstimateText(appended->estimate)));
  } else if (appended->already_appended) {
    environment->Note(absl::StrCat("context '", id, "' already has these rows"));
  } else {
    environment->Note(absl::StrCat(appended->row_count,
                                   appended->row_count == 1 ? " row was" : " rows were",
                                   " appended to context '", id, "'"));
  }
  return WriteContext(appended->context, environment);
}

}  // namespace

void AddAppendCommand(CLI::App* app, Environment* environment) {
  auto arguments = std::make_shared<AppendArguments>();
  CLI::App* command = AddCommand(app, environment, "append",
                                 "Append the rows of a CSV file to a "
                                 "context",
                                 arguments, RunAppend);
  AddRowsOptions(command, &arguments->rows,
                 "CSV file of the rows to append, with a header line and the context's features "
                 "and its target; other columns are ignored. \"-\": standard input");
  command
      ->add_option("--first-row", arguments->first_row,
                   "Number of rows that the context has before the append. If it has these rows "
                   "after the first N already, nothing changes, so that the command can be "
                   "repeated [the number of rows that it has now]")
      ->transform(IntegerBetween(0, kMaxInt64))
      ->type_name("N");
  command
      ->add_option("--etag", arguments->etag,
                   "Etag that the context must have, as 'chorale show --format=json' prints it "
                   "[any]")
      ->type_name("ETAG");
  command->add_flag("--drop-missing-targets", arguments->drop_missing_targets,
                    "Drop rows whose target is missing, instead of rejecting the file");
  command->add_flag("--validate-only", arguments->validate_only,
                    "Validate the rows without appending them, and show the context that would "
                    "result");
  command->footer(
      "The file has the features and the target of the context, in any order. The server encodes\n"
      "the new rows alone. The rows that the context had before the first append determine how\n"
      "columns are scaled and which categories the model distinguishes, until the server encodes\n"
      "the context anew: in the background when many rows were appended, or when you run 'chorale\n"
      "warm --encode-anew'.\n\n"
      "Example:\n  chorale append houses sold_today.csv --first-row 4000");
}

}  // namespace chorale::client
