// chorale summarize
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/functional_spec.h"
#include "client/cli/given.h"
#include "client/cli/group_by.h"
#include "client/cli/quantiles.h"
#include "client/cpp/groups.h"
#include "client/cpp/known_values.h"

namespace chorale::client {
namespace {

struct SummarizeArguments {
  RowsOptions rows;
  int64_t paths = 1000;
  double target_mean_error = 0;
  double target_quantile_error = 0;
  std::optional<uint64_t> seed;
  std::string order = "given";
  std::string sampling = "independent";
  std::string estimator = "conditional";
  std::vector<double> quantiles = {0.05, 0.25, 0.5, 0.75, 0.95};
  std::vector<std::string> functionals;
  bool given = false;
  bool wrap = false;
  bool no_snap = false;
  int64_t local_rows = 0;
};

SummarizeOptions ToOptions(const SummarizeArguments& arguments) {
  SummarizeOptions options;
  options.path_count = arguments.paths;
  options.target_mean_error = arguments.target_mean_error;
  options.target_quantile_error = arguments.target_quantile_error;
  options.seed = arguments.seed;
  if (arguments.order == "random") options.order = RowOrder::kRandomPerPath;
  if (arguments.sampling == "sobol") options.sampling = Sampling::kSobol;
  if (arguments.estimator == "values") options.estimator = Estimator::kValues;
  if (arguments.wrap) options.beyond_buffer = BeyondBuffer::kWrap;
  if (arguments.no_snap) options.snapping = Snapping::kOff;
  options.local_rows = arguments.local_rows;
  options.quantiles = arguments.quantiles;
  return options;
}

bool HasTargetErrors(const SummarizeOptions& options) {
  return options.target_mean_error > 0 || options.target_quantile_error > 0 ||
         std::any_of(options.functionals.begin(), options.functionals.end(),
                     [](const v1::Functional& functional) {
                       return functional.target_mean_error() > 0 ||
                              functional.target_quantile_error() > 0;
                     });
}

// Unlike CLI::PositiveNumber, rejects NaN and infinity.
CLI::Validator PositiveNumber() {
  return CLI::Validator(
      [](const std::string& text) {
        double number = 0;
        const bool valid = absl::SimpleAtod(text, &number) && std::isfinite(number) && number > 0;
        return valid ? std::string() : absl::StrCat("'", text, "' is not a finite number above 0");
      },
      "");
}

// Returns the functionals of rows of the file, each with all its rows in their order.
absl::StatusOr<std::vector<v1::Functional>> ParseFunctionals(const SummarizeArguments& arguments,
                                                             int64_t row_count) {
  std::vector<v1::Functional> functionals;
  for (const std::string& spec : arguments.functionals) {
    ASSIGN_OR_RETURN(v1::Functional functional, ParseFunctional(spec, row_count));
    if (functional.rows().empty()) {
      for (int64_t row = 0; row < row_count; ++row) {
        functional.add_rows(static_cast<int32_t>(row));
      }
    }
    functionals.push_back(std::move(functional));
  }
  return functionals;
}

// InvalidArgument if a functional has no row of a group. `group_of` [T].
absl::Status CheckGroupsOf(const std::vector<v1::Functional>& functionals,
                           const std::vector<int64_t>& group_of, const RowGroups& groups,
                           const SummarizeArguments& arguments) {
  for (size_t f = 0; f < functionals.size(); ++f) {
    std::vector<bool> has(groups.labels.size());
    for (const int32_t row : functionals[f].rows()) {
      if (!has.empty()) has[group_of[row]] = true;
    }
    for (size_t group = 0; group < has.size(); ++group) {
      if (has[group]) continue;
      return absl::InvalidArgumentError(absl::StrCat("--functional: '", arguments.functionals[f],
                                                     "': none of the rows belongs to the group '",
                                                     groups.labels[group], "'"));
    }
  }
  return absl::OkStatus();
}

// Names the functionals in an error of the server, which has their indexes.
absl::Status WithFunctionals(const absl::Status& error, const SummarizeArguments& arguments) {
  std::string message(error.message());
  for (size_t i = 0; i < arguments.functionals.size(); ++i) {
    message = absl::StrReplaceAll(
        message, {{absl::StrCat("functionals[", i, "]"),
                   absl::StrCat("--functional: '", arguments.functionals[i], "'")}});
  }
  return message == error.message() ? error : absl::Status(error.code(), message);
}

// A summary and the rows and groups that it is about.
struct SummaryTable {
  const v1::SummarizeResponse& summary;
  const std::vector<int64_t>& rows;                // [U]: of the file, in the order of the response
  const std::vector<int64_t>& group_of;            // [T]: of each row of the file
  const std::vector<std::string>& labels;          // [G]: of groups; empty without groups
  const std::vector<v1::Functional>& functionals;  // with rows of the file
  const std::string& target;
};

// Writes lines of a summary. Used by one thread.
class SummaryWriter {
 public:
  SummaryWriter(const SummaryTable& table, const SummarizeArguments& arguments, Format format,
                std::ostream* out)
      : table_(table), arguments_(arguments), report_(Columns(table, arguments), format, out) {}

  void Write() {
    for (const size_t i : AscendingOrder(table_.rows)) {
      const int64_t row = table_.rows[i];
      Add(table_.target, row, table_.group_of[row], table_.summary, static_cast<int>(i));
    }
    for (size_t f = 0; f < table_.functionals.size(); ++f) {
      const v1::FunctionalSummary& summary = table_.summary.functionals(static_cast<int>(f));
      const v1::Functional& functional = table_.functionals[f];
      const bool of_rows = HasNumberOfEachRow(functional.type());
      for (int i = 0; i < summary.means_size(); ++i) {
        const int64_t row = of_rows ? functional.rows(i) : -1;
        Add(arguments_.functionals[f], row, of_rows ? table_.group_of[row] : i, summary, i);
      }
    }
    report_.Finish();
  }

 private:
  static std::vector<std::string> Columns(const SummaryTable& table,
                                          const SummarizeArguments& arguments) {
    std::vector<std::string> columns = {"quantity"};
    if (!table.labels.empty()) columns.emplace_back("group");
    columns.insert(columns.end(), {"row", "mean", "mean_error", "sd"});
    for (const double p : arguments.quantiles) columns.push_back(QuantileName(p));
    return columns;
  }

  // Adds a line. `row` is -1 for a quantity of several rows.
  template <class Statistics>
  void Add(const std::string& quantity, int64_t row, int64_t group, const Statistics& statistics,
           int i) {
    std::vector<Cell> cells = {quantity};
    if (!table_.labels.empty()) cells.emplace_back(table_.labels[group]);
    cells.push_back(row < 0 ? Cell() : Cell(row));
    cells.emplace_back(statistics.means(i));
    cells.emplace_back(statistics.mean_errors(i));
    cells.emplace_back(statistics.stds(i));
    const auto quantiles = static_cast<int>(arguments_.quantiles.size());
    for (int q = 0; q < quantiles; ++q) {
      const bool has = statistics.quantiles_size() > 0;
      cells.push_back(has ? Cell(statistics.quantiles(i * quantiles + q)) : Cell());
    }
    report_.Add(cells);
  }

  const SummaryTable& table_;
  const SummarizeArguments& arguments_;
  ReportWriter report_;
};

absl::Status RunSummarize(const SummarizeArguments& arguments, Environment* environment) {
  RETURN_IF_ERROR(CheckQuantiles(arguments.quantiles));
  const TargetColumn target = arguments.given ? TargetColumn::kUsed : TargetColumn::kUnused;
  ASSIGN_OR_RETURN(Rows rows, LoadRows(arguments.rows, target, environment));
  const int64_t row_count = rows.features.row_count();
  SummarizeOptions options = ToOptions(arguments);
  if (arguments.given) {
    ASSIGN_OR_RETURN(options.known, KnownValuesOf(arguments.rows, rows, *environment));
  }
  ASSIGN_OR_RETURN(RowGroups groups, GroupsOf(arguments.rows, rows, options.known));
  options.known = groups.InRequest(options.known);
  options.group_sizes = groups.sizes;
  ASSIGN_OR_RETURN(const std::vector<v1::Functional> functionals,
                   ParseFunctionals(arguments, row_count));
  std::vector<int32_t> places(row_count);  // [T]: in the request, of the rows of the file
  std::vector<int64_t> group_of(row_count);
  const std::vector<int64_t> group_of_place = GroupOfEachRow(groups.sizes, row_count);
  for (int64_t place = 0; place < row_count; ++place) {
    places[groups.order[place]] = static_cast<int32_t>(place);
    group_of[groups.order[place]] = group_of_place[place];
  }
  RETURN_IF_ERROR(CheckGroupsOf(functionals, group_of, groups, arguments));
  options.functionals = functionals;
  for (v1::Functional& functional : options.functionals) {
    for (int32_t& row : *functional.mutable_rows()) row = places[row];
  }
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  options.expected_source = SourceOf(rows.context);
  const absl::StatusOr<v1::SummarizeResponse> summary = client->Summarize(
      arguments.rows.context, rows.features.Take(groups.order), options, environment->call());
  RETURN_IF_ERROR(WithFunctionals(WithLine(summary.status(), arguments.rows.file, rows,
                                           groups.InFile(options.known), groups.order),
                                  arguments));
  environment->Note(absl::StrCat("seed ", summary->seed()));
  if (HasTargetErrors(options)) {
    const bool all = summary->path_count() == options.path_count;
    environment->Note(absl::StrCat(summary->path_count(), " of ", options.path_count, " paths",
                                   all ? "; errors may exceed their targets" : ""));
  }
  const auto& log_densities = summary->known_log_densities();
  NoteKnown(options.known, {log_densities.begin(), log_densities.end()}, *environment);
  NoteWarnings(summary->warnings(), *environment);
  const std::vector<int64_t> unknown = groups.InFile(OtherRows(options.known, row_count));
  const SummaryTable table{*summary,      unknown,     group_of,
                           groups.labels, functionals, rows.context.target_column()};
  const Format format = environment->format(Environment::Readers::kPeople);
  return environment->Write(
      [&](std::ostream& out) { SummaryWriter(table, arguments, format, &out).Write(); });
}

}  // namespace

void AddSummarizeCommand(CLI::App* app, Environment* environment) {
  auto arguments = std::make_shared<SummarizeArguments>();
  CLI::App* command =
      AddCommand(app, environment, "summarize",
                 "Draw joint sample paths and write statistics that the server computes of them",
                 arguments, RunSummarize);
  AddQueryRowsOptions(command, &arguments->rows);
  command->add_option("--paths", arguments->paths, "Number of joint sample paths")
      ->transform(IntegerBetween(2, 1'000'000'000))
      ->type_name("B")
      ->capture_default_str();
  command
      ->add_option("--target-mean-error", arguments->target_mean_error,
                   "Stop drawing paths, of at most B, when the standard error of the mean of each "
                   "row is at most E, in the target's units")
      ->check(PositiveNumber())
      ->type_name("E");
  command
      ->add_option("--target-quantile-error", arguments->target_quantile_error,
                   "The same for the standard error of each quantile of each row")
      ->check(PositiveNumber())
      ->type_name("E");
  AddSeedOption(command, &arguments->seed,
                "Seed: the paths are those of 'chorale sample' with the same seed. Without it, the "
                "server chooses a seed");
  command
      ->add_option(
          "--order", arguments->order,
          "Order in which a path draws the rows: that of ROWS, or a random order for each path")
      ->check(CLI::IsMember({"given", "random"}))
      ->capture_default_str();
  AddSamplingOption(command, &arguments->sampling);
  command
      ->add_option("--estimator", arguments->estimator,
                   "Estimate the statistics of rows, and the means of sums over rows, from the "
                   "distributions of which the values are drawn, which has much smaller errors "
                   "('conditional'; not for snapped values), or all statistics from the values")
      ->check(CLI::IsMember({"conditional", "values"}))
      ->capture_default_str();
  AddQuantilesOption(command, &arguments->quantiles)->default_str("0.05,0.25,0.5,0.75,0.95");
  command
      ->add_option("--functional", arguments->functionals,
                   "Also write statistics of a function of the values of a path: sum, mean, max, "
                   "min, argmax, argmin, rank; or, with a threshold T, any, all, count, excess, "
                   "improvement, longest_run, sum_beyond, followed by ':above=T' or ':below=T'. "
                   "':rows=0-6,9' selects rows, ':weights=W,...' sets the weights of a sum, and "
                   "':mean_error=E' and ':quantile_error=E' are target errors")
      ->allow_extra_args(false)
      ->type_name("SPEC");
  AddGivenFlag(command, &arguments->given,
               "Draw these other rows, conditional on the known values");
  AddGroupByOption(command, &arguments->rows,
                   "Draw the paths of each group separately, and evaluate functionals in each");
  command->add_flag(
      "--wrap", arguments->wrap,
      "Allow more rows, in a group, than the model was trained for (buffer_size in 'chorale "
      "models')");
  AddNoSnapFlag(command, &arguments->no_snap);
  AddLocalRowsOption(command, &arguments->local_rows);
  command->footer(
      "Writes a line for each row, numbered from 0, with the name of the target as its quantity:\n"
      "the mean, the standard error of the mean, the standard deviation and the\n"
      "quantiles, in the target's units. With --given, rows with known values have no line.\n"
      "Lines of functionals follow: a line for each, or for each group; argmax, argmin and rank\n"
      "have a line for each row, without quantiles.\n\n"
      "Examples:\n"
      "  chorale summarize houses new.csv --paths 10000 --functional sum --functional argmax\n"
      "  chorale summarize sales month.csv --given --functional any:above=150:rows=10-30\n"
      "  chorale summarize sales month.csv --paths 10000 --functional sum:mean_error=5");
}

}  // namespace chorale::client
