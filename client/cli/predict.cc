// chorale predict
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/given.h"
#include "client/cpp/csv.h"
#include "client/cpp/known_values.h"

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

// Returns "q" and the shortest decimal that parses to this probability, so that names are distinct.
std::string QuantileName(double p) {
  std::string text = absl::StrCat(p);
  double read = 0.0;
  if (!absl::SimpleAtod(text, &read) || read != p) text = FormatDouble(p);
  return absl::StrCat("q", text);
}

absl::Status CheckQuantiles(std::vector<double> quantiles) {
  std::sort(quantiles.begin(), quantiles.end());
  const auto repeated = std::adjacent_find(quantiles.begin(), quantiles.end());
  if (repeated == quantiles.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--quantiles: ", FormatDouble(*repeated), " is given twice"));
}

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

// `rows` [U]: the predicted rows.
void WritePredictions(const Predictions& predictions, const std::vector<int64_t>& rows,
                      const PredictArguments& arguments, Format format, std::ostream* out) {
  const int64_t components = arguments.mixture ? predictions.mixtures.component_count() : 0;
  const size_t quantiles = arguments.quantiles.size();
  ReportWriter report(Columns(arguments, components), format, out);
  for (size_t row = 0; row < predictions.means.size(); ++row) {
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

absl::Status RunPredict(const PredictArguments& arguments, Environment* environment) {
  RETURN_IF_ERROR(CheckQuantiles(arguments.quantiles));
  const TargetColumn target = arguments.given ? TargetColumn::kUsed : TargetColumn::kUnused;
  ASSIGN_OR_RETURN(Rows rows, LoadRows(arguments.rows, target, environment));
  v1::KnownValues known;
  if (arguments.given) {
    ASSIGN_OR_RETURN(known, KnownValuesOf(arguments.rows, rows, *environment));
  }
  const std::vector<int64_t> others = OtherRows(known, rows.features.row_count());
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  Progress progress("rows predicted", static_cast<int64_t>(others.size()), environment->progress());
  PredictOptions options;
  options.quantiles = arguments.quantiles;
  if (arguments.mixture) options.mixture = PredictOptions::Mixture::kInclude;
  if (arguments.no_snap) options.snapping = Snapping::kOff;
  options.known = known;
  if (arguments.wrap) options.beyond_buffer = BeyondBuffer::kWrap;
  options.local_rows = arguments.local_rows;
  options.expected_source = SourceOf(rows.context);
  int64_t predicted = 0;
  options.on_progress = [&progress, &predicted](int64_t done) {
    predicted = done;
    progress.Update(done);
  };
  const absl::StatusOr<Predictions> predictions =
      client->Predict(arguments.rows.context, rows.features, options, environment->call());
  std::vector<int64_t> asked(known.rows().begin(), known.rows().end());  // by the last request
  asked.insert(asked.end(), others.begin() + predicted, others.end());
  RETURN_IF_ERROR(WithLine(predictions.status(), arguments.rows.file, rows, known, asked));
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
  command
      ->add_option("--quantiles", arguments->quantiles,
                   "Probabilities of the quantiles, each strictly between 0 and 1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("P,...")
      ->check([](const std::string& text) {
        double p = 0.0;
        const bool good = CLI::detail::lexical_cast(text, p) && p > 0.0 && p < 1.0;
        return good ? std::string() : "must lie strictly between 0 and 1: " + text;
      });
  command->add_flag("--mixture", arguments->mixture,
                    "Also write the Gaussian mixture of each prediction");
  AddGivenFlag(command, &arguments->given,
               "Predict these other rows, each conditional on all known values");
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
