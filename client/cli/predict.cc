// chorale predict
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/continuation.h"
#include "client/cli/given.h"
#include "client/cli/group_by.h"
#include "client/cli/predicted_rows.h"
#include "client/cli/prediction_output.h"
#include "client/cli/quantiles.h"
#include "client/cpp/predict_pieces.h"
#include "client/cpp/status_from_grpc.h"

namespace chorale::client {
namespace {

struct PredictArguments {
  RowsOptions rows;
  std::vector<double> quantiles;
  bool mixture = false;
  bool given = false;
  bool wrap = false;
  bool no_snap = false;
  int64_t local_rows = 0;
  int64_t first_row = 0;
  bool append = false;
};

// Returns the errors of --first-row and --append for the rows of a request.
absl::Status CheckContinuation(const PredictArguments& arguments, const PredictedRows& asked,
                               const v1::KnownValues& known, const PredictionOutput& output,
                               const Environment& environment) {
  if (arguments.first_row > 0 && arguments.local_rows > 0 && !asked.groups.sizes.empty()) {
    return absl::InvalidArgumentError(
        "--first-row: is not available with --local-rows and --group-by, because the local rows of "
        "a request depend on all its rows");
  }
  if (!arguments.append) return absl::OkStatus();
  const int64_t before = PredictedBefore(arguments.first_row, known);
  if (before < 0) {
    return absl::InvalidArgumentError(
        "--append: no row before --first-row is predicted: omit --append");
  }
  return CheckAppend(environment, output.format(), before,
                     absl::StrCat("row ", before, ", the last row to predict before --first-row"));
}

// Whether a command can predict the rows that a call has not predicted, so that its lines belong to
// the same output.
bool CanContinue(const PredictArguments& arguments, const PredictedRows& asked,
                 const absl::Status& error) {
  return !absl::IsDataLoss(error) && !absl::IsUnimplemented(error) &&
         ErrorReason(error) != "SOURCE_CHANGED" &&
         (arguments.local_rows == 0 || asked.groups.sizes.empty());
}

PredictOptions ToOptions(const PredictArguments& arguments, const PredictedRows& asked,
                         const v1::Context& context) {
  PredictOptions options;
  options.quantiles = arguments.quantiles;
  if (arguments.mixture) options.mixture = PredictOptions::Mixture::kInclude;
  if (arguments.no_snap) options.snapping = Snapping::kOff;
  options.known = asked.known;
  options.group_sizes = asked.groups.sizes;
  if (arguments.wrap) options.beyond_buffer = BeyondBuffer::kWrap;
  options.local_rows = arguments.local_rows;
  options.expected_source = SourceOf(context);
  return options;
}

// Returns an error of the request that follows those for the first `predicted` rows.
absl::Status WithLineOfPiece(const absl::Status& error, int64_t predicted, const DataFrame& sent,
                             const PredictedRows& asked, const PredictArguments& arguments,
                             const Rows& rows) {
  const PredictPieces pieces(sent, asked.known, asked.groups.sizes, arguments.local_rows);
  // The rows of this request, and of the later requests.
  const std::vector<int64_t> left =
      pieces.Rows({predicted, static_cast<int64_t>(asked.others.size())});
  v1::KnownValues own;  // the known rows are ascending, and come first in each group
  for (const int32_t row : asked.known.rows()) {
    if (!left.empty() && row >= left.front()) own.add_rows(row);
  }
  return WithLine(error, arguments.rows.file, rows, asked.groups.InFile(own),
                  asked.groups.InFile(left));
}

absl::Status RunPredict(const PredictArguments& arguments, Environment* environment) {
  RETURN_IF_ERROR(CheckQuantiles(arguments.quantiles));
  const TargetColumn target = arguments.given ? TargetColumn::kUsed : TargetColumn::kUnused;
  ASSIGN_OR_RETURN(Rows rows, LoadRows(arguments.rows, target, environment));
  v1::KnownValues known;
  if (arguments.given) {
    ASSIGN_OR_RETURN(known, KnownValuesOf(arguments.rows, rows, *environment));
  }
  ASSIGN_OR_RETURN(const RowGroups groups, GroupsOf(arguments.rows, rows, known));
  ASSIGN_OR_RETURN(const PredictedRows asked,
                   RowsFrom(arguments.first_row, groups, known, arguments.rows.file));
  PredictionOutput output(
      asked.others, arguments.quantiles,
      arguments.append ? PredictionOutput::Header::kOmit : PredictionOutput::Header::kInclude,
      environment);
  RETURN_IF_ERROR(CheckContinuation(arguments, asked, known, output, *environment));
  // The whole table is not copied.
  const bool all = asked.groups.order == groups.order && groups.sizes.empty();
  const DataFrame sent = all ? std::move(rows.features) : rows.features.Take(asked.groups.order);
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  PredictOptions options = ToOptions(arguments, asked, rows.context);
  options.on_predictions = [&output](const Predictions& next) { return output.Add(next); };
  int64_t predicted = 0;
  absl::StatusOr<Predictions> rest;
  {
    Progress progress("rows predicted", static_cast<int64_t>(asked.others.size()),
                      output.ShowsLines() ? Progress::Display::kNone : environment->progress());
    options.on_progress = [&](int64_t done) {
      predicted = done;
      progress.Update(done);
    };
    rest = client->Predict(arguments.rows.context, sent, options, environment->call());
  }
  if (!rest.ok()) {
    output.EndEarly(CanContinue(arguments, asked, rest.status()));
    return WithLineOfPiece(rest.status(), predicted, sent, asked, arguments, rows);
  }
  NoteWarnings(rest->warnings, *environment);
  NoteKnown(asked.known, rest->known_log_densities, *environment);
  return output.Finish();
}

}  // namespace

void AddPredictCommand(CLI::App* app, Environment* environment) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command =
      AddCommand(app, environment, "predict", "Predict the marginal distribution of each query row",
                 arguments, RunPredict);
  AddQueryRowsOptions(command, &arguments->rows);
  AddQuantilesOption(command, &arguments->quantiles);
  command->add_flag("--mixture", arguments->mixture,
                    "Also write the Gaussian mixture of each prediction");
  AddGivenFlag(command, &arguments->given,
               "Predict these other rows, each conditional on all known values");
  AddGroupByOption(command, &arguments->rows,
                   "With --given, predictions are conditional on known values of their group only");
  command->add_flag("--wrap", arguments->wrap,
                    "Allow as many known values as the model has buffer positions (buffer_size in "
                    "'chorale models'), or more");
  AddNoSnapFlag(command, &arguments->no_snap);
  AddLocalRowsOption(command, &arguments->local_rows);
  CLI::Option* const first_row =
      command
          ->add_option("--first-row", arguments->first_row,
                       "Number of the first row to predict, from 0: predict the rows from N on. "
                       "Earlier rows with known values remain known")
          ->transform(IntegerBetween(0, std::numeric_limits<int32_t>::max()))
          ->type_name("N");
  command
      ->add_flag("--append", arguments->append,
                 "Continue CSV output that ends before --first-row: write no header; with --output "
                 "FILE, continue FILE.partial, and replace FILE by it")
      ->needs(first_row);
  command->footer(
      "Writes a line for each row: its number, from 0; the mean and the standard deviation in the\n"
      "target's units; and the quantiles. With --given, rows with known values have no line. The\n"
      "number of rows is not limited.\n\n"
      "CSV and JSON are written as the predictions come; with --output FILE, to FILE.partial, "
      "which\n"
      "replaces FILE at the end. If the command ends early, by Ctrl-C, --timeout or a lost\n"
      "connection, the complete rows remain in the output or in FILE.partial, and it writes the\n"
      "command that predicts the others to standard error. In JSON, the others become an array of\n"
      "their own.\n\n"
      "Example:\n  chorale predict houses new.csv --quantiles 0.05,0.5,0.95");
}

}  // namespace chorale::client
