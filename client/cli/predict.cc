// chorale predict
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/given.h"
#include "client/cli/group_by.h"
#include "client/cli/quantiles.h"
#include "client/cpp/known_values.h"
#include "client/cpp/predict_pieces.h"

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
};

std::vector<std::string> Columns(const PredictArguments& arguments, int64_t components) {
  std::vector<std::string> columns = {"row", "mean", "sd"};
  for (const double p : arguments.quantiles) columns.push_back(QuantileName(p));
  for (int64_t k = 0; k < components; ++k) {
    for (const char* part : {"weight", "mean", "sd"}) {
      columns.push_back(absl::StrCat("component", k, "_", part));
    }
  }
  return columns;
}

// `rows` [U]: the predicted rows of the file.
void WritePredictions(const Predictions& predictions, const std::vector<int64_t>& rows,
                      const PredictArguments& arguments, Format format, std::ostream* out) {
  const int64_t components = arguments.mixture ? predictions.mixtures.component_count() : 0;
  const size_t quantiles = arguments.quantiles.size();
  ReportWriter report(Columns(arguments, components), format, out);
  for (const size_t row : AscendingOrder(rows)) {
    std::vector<Cell> cells = {rows[row], predictions.means[row], predictions.stds[row]};
    for (size_t q = 0; q < quantiles; ++q) {
      cells.emplace_back(predictions.quantiles[row * quantiles + q]);
    }
    for (int64_t k = 0; k < components; ++k) {
      const int at = static_cast<int>(static_cast<int64_t>(row) * components + k);
      cells.emplace_back(predictions.mixtures.weights(at));
      cells.emplace_back(predictions.mixtures.means(at));
      cells.emplace_back(predictions.mixtures.stds(at));
    }
    report.Add(cells);
  }
  report.Finish();
}

// Returns an error of a request. `left` is the range of its rows and those of the later requests
// among the rows whose values are not known.
absl::Status WithLineOfPiece(const absl::Status& error, const PredictPieces& pieces,
                             const RowRange& left, const RowGroups& groups,
                             const v1::KnownValues& known, const std::string& file,
                             const Rows& rows) {
  const std::vector<int64_t> asked = pieces.Rows(left);  // by this request and the later ones
  v1::KnownValues own;  // the known rows are ascending, and come first in each group
  for (const int32_t row : known.rows()) {
    if (!asked.empty() && row >= asked.front()) own.add_rows(row);
  }
  return WithLine(error, file, rows, groups.InFile(own), groups.InFile(asked));
}

absl::Status RunPredict(const PredictArguments& arguments, Environment* environment) {
  RETURN_IF_ERROR(CheckQuantiles(arguments.quantiles));
  const TargetColumn target = arguments.given ? TargetColumn::kUsed : TargetColumn::kUnused;
  ASSIGN_OR_RETURN(Rows rows, LoadRows(arguments.rows, target, environment));
  v1::KnownValues known;
  if (arguments.given) {
    ASSIGN_OR_RETURN(known, KnownValuesOf(arguments.rows, rows, *environment));
  }
  ASSIGN_OR_RETURN(RowGroups groups, GroupsOf(arguments.rows, rows, known));
  const DataFrame sent = rows.features.Take(groups.order);
  known = groups.InRequest(known);
  std::vector<int64_t> others = OtherRows(known, rows.features.row_count());
  for (int64_t& row : others) row = groups.order[row];
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  Progress progress("rows predicted", static_cast<int64_t>(others.size()), environment->progress());
  PredictOptions options;
  options.quantiles = arguments.quantiles;
  if (arguments.mixture) options.mixture = PredictOptions::Mixture::kInclude;
  if (arguments.no_snap) options.snapping = Snapping::kOff;
  options.known = known;
  options.group_sizes = groups.sizes;
  if (arguments.wrap) options.beyond_buffer = BeyondBuffer::kWrap;
  options.local_rows = arguments.local_rows;
  options.expected_source = SourceOf(rows.context);
  int64_t predicted = 0;
  options.on_progress = [&progress, &predicted](int64_t done) {
    predicted = done;
    progress.Update(done);
  };
  const absl::StatusOr<Predictions> predictions =
      client->Predict(arguments.rows.context, sent, options, environment->call());
  if (!predictions.ok()) {
    const PredictPieces pieces(sent, known, groups.sizes, arguments.local_rows);
    return WithLineOfPiece(predictions.status(), pieces,
                           {predicted, static_cast<int64_t>(others.size())}, groups, known,
                           arguments.rows.file, rows);
  }
  NoteWarnings(predictions->warnings, *environment);
  NoteKnown(known, predictions->known_log_densities, *environment);
  const Format format = environment->format(Environment::Readers::kPrograms);
  return environment->Write(
      [&](std::ostream& out) { WritePredictions(*predictions, others, arguments, format, &out); });
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
  command->footer(
      "Writes a line for each row: its number, from 0; the mean and the standard deviation in the\n"
      "target's units; and the quantiles. With --given, rows with known values have no line. The\n"
      "number of rows is not limited.\n\n"
      "Example:\n  chorale predict houses new.csv --quantiles 0.05,0.5,0.95");
}

}  // namespace chorale::client
