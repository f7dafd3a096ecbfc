// chorale sample
#include <unistd.h>

#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/continuation.h"
#include "client/cli/given.h"
#include "client/cli/group_by.h"
#include "client/cli/growing_output.h"
#include "client/cli/known_total.h"
#include "client/cli/report.h"
#include "client/cli/sample_report.h"
#include "client/cpp/groups.h"
#include "client/cpp/path_weights.h"

namespace chorale::client {
namespace {

struct SampleArguments {
  RowsOptions rows;
  int64_t paths = 100;
  int64_t first_path = 0;
  std::optional<uint64_t> seed;
  std::string order = "given";
  std::string sampling = "independent";
  bool log_density = false;
  bool given = false;
  TotalArguments total;
  bool wrap = false;
  bool no_snap = false;
  int64_t local_rows = 0;
  bool summary = false;
  bool append = false;
  bool validate_only = false;
};

// As the server's choice: below 2^53, which every JSON parser reads exactly.
uint64_t RandomSeed() {
  constexpr int kUnusedBits = 11;
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) >> kUnusedBits;
}

SampleOptions ToOptions(const SampleArguments& arguments) {
  SampleOptions options;
  options.path_count = arguments.paths;
  options.first_path = arguments.first_path;
  // Chosen here, so that a call that ends early can be continued.
  options.seed = arguments.seed.has_value() ? arguments.seed : RandomSeed();
  if (arguments.order == "random") options.order = RowOrder::kRandomPerPath;
  if (arguments.sampling == "sobol") options.sampling = Sampling::kSobol;
  if (arguments.log_density) options.step_densities = StepDensities::kInclude;
  if (arguments.wrap) options.beyond_buffer = BeyondBuffer::kWrap;
  if (arguments.no_snap) options.snapping = Snapping::kOff;
  options.local_rows = arguments.local_rows;
  return options;
}

// The values of the target column of the file [T], for a summary: those with which it compares the
// samples or, with --given, the known values. Empty if the file has no such column.
absl::StatusOr<std::vector<double>> ActualValues(const Rows& rows, const SampleArguments& arguments,
                                                 const Environment& environment) {
  const std::string& target = rows.context.target_column();
  if (!arguments.summary || rows.csv.Find(target) < 0) return std::vector<double>();
  ASSIGN_OR_RETURN(std::vector<double> actual, TargetValues(arguments.rows, rows));
  if (!arguments.given && SomeAreKnown(actual)) {
    environment.Note(
        absl::StrCat(arguments.rows.file, ": the samples are compared with the values of '", target,
                     "', which some rows do not have; with --given, they are conditional on them"));
  }
  return actual;
}

std::string Text(const google::protobuf::Duration& duration) {
  const absl::Duration time =
      absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
  return absl::FormatDuration(absl::Trunc(time, absl::Microseconds(100)));
}

void NoteSummary(const v1::SampleSummary& summary, const Environment& environment) {
  const v1::Timings& timings = summary.timings();
  environment.Note(absl::StrCat("seed ", summary.seed(), "; first step after ",
                                Text(timings.first_step()), ", complete after ",
                                Text(timings.total()), " (queued ", Text(timings.queued()),
                                ", encoding ", Text(timings.encoding()), ")"));
}

// Writes samples: complete paths as they come, or all of them at the end.
class SampleOutput {
 public:
  SampleOutput(const SampleArguments& arguments, const SampleTitle& title,
               const Environment* environment)
      : arguments_(arguments),
        title_(title),
        environment_(*environment),
        format_(environment->format(Environment::Readers::kPrograms)),
        header_(arguments.append ? SampleWriter::Header::kOmit : SampleWriter::Header::kInclude),
        // On a terminal, lines would come between those of the progress. Weights come at the end.
        grows_(format_ == Format::kCsv && !arguments.summary &&
               !arguments.total.total.has_value() &&
               !(environment->options.output.empty() && isatty(STDOUT_FILENO) == 1)),
        output_(environment->options.output, arguments.append) {}

  // Returns the errors of --append that can be detected in advance.
  absl::Status Check() const {
    if (!arguments_.append) return absl::OkStatus();
    const int64_t before = arguments_.first_path - 1;
    return CheckAppend(environment_, format_, before,
                       absl::StrCat("path ", before, ", the one before --first-path"));
  }

  // Adds the next paths.
  absl::Status Add(const Samples& paths) {
    count_ += paths.path_count;
    if (!grows_) {
      drawn_.Append(paths);
      return absl::OkStatus();
    }
    if (!writer_.has_value()) {
      ASSIGN_OR_RETURN(std::ostream* const out, output_.Open());
      writer_.emplace(title_, format_, header_, out);
    }
    writer_->Add(paths);
    return output_.Flush();
  }

  // Call at the end, after a call that was successful.
  absl::Status Finish(const Samples& samples) {
    if (grows_) return output_.Finish();
    return environment_.Write([&](std::ostream& out) { WriteAll(samples, &out); });
  }

  // Call at the end, if the call has ended early. Writes the paths that were drawn, and the command
  // that draws the others.
  void EndEarly(uint64_t seed) {
    if (arguments_.total.total.has_value()) {
      environment_.Note("no paths were written: with --total, their weights come at the end");
      return;
    }
    if (count_ == 0 || arguments_.summary) return;
    absl::StatusOr<std::string> place = output_.place();
    if (!grows_) {
      place = environment_.WritePartial([&](std::ostream& out) { WriteAll(drawn_, &out); });
    }
    NotePartialResults({.unit = "paths",
                        .count = count_,
                        .total = arguments_.paths,
                        .place = std::move(place),
                        .verb = "draws",
                        .replaced = {{"--seed", seed},
                                     {"--first-path", uint64_t(arguments_.first_path + count_)},
                                     {"--paths", uint64_t(arguments_.paths - count_)}}},
                       format_, environment_);
  }

 private:
  void WriteAll(const Samples& samples, std::ostream* out) const {
    if (format_ == Format::kJson) {
      WriteSamplesJson(samples, title_, out);
      return;
    }
    SampleWriter writer(title_, format_, header_, out);
    writer.Add(samples);
    writer.Finish();
  }

  const SampleArguments& arguments_;
  const SampleTitle title_;
  const Environment& environment_;
  const Format format_;
  const SampleWriter::Header header_;
  const bool grows_;
  GrowingOutput output_;
  std::optional<SampleWriter> writer_;
  Samples drawn_;      // unless the output grows
  int64_t count_ = 0;  // of paths
};

// Whether the call ended before all values were drawn, so that another call can draw the others.
bool EndedEarly(const absl::Status& status) {
  return !status.ok() && !absl::IsDataLoss(status) && !absl::IsUnimplemented(status) &&
         !absl::IsInvalidArgument(status);
}

absl::Status WriteEstimate(const v1::Estimate& estimate, const Environment& environment) {
  return environment.Write([&](std::ostream& out) {
    ReportWriter report({"device_bytes", "seconds"},
                        environment.format(Environment::Readers::kPeople), &out);
    std::vector<Cell> cells = {Bytes{estimate.device_bytes()}, Cell()};
    if (estimate.has_duration()) cells.back() = SecondsOf(estimate.duration());
    report.Add(cells);
    report.Finish();
  });
}

absl::Status RunSample(const SampleArguments& arguments, Environment* environment) {
  const TargetColumn target =
      arguments.summary || arguments.given ? TargetColumn::kUsed : TargetColumn::kUnused;
  ASSIGN_OR_RETURN(Rows rows, LoadRows(arguments.rows, target, environment));
  ASSIGN_OR_RETURN(std::vector<double> actual, ActualValues(rows, arguments, *environment));
  SampleOptions options = ToOptions(arguments);
  if (arguments.given) {
    ASSIGN_OR_RETURN(options.known, KnownValuesOf(arguments.rows, rows, *environment));
  }
  ASSIGN_OR_RETURN(RowGroups groups, GroupsOf(arguments.rows, rows, options.known));
  const DataFrame sent = rows.features.Take(groups.order);
  options.known = groups.InRequest(options.known);
  options.group_sizes = groups.sizes;
  options.known_totals = TotalsOf(arguments.total, CountGroups(groups.sizes));
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  options.expected_source = SourceOf(rows.context);
  if (arguments.validate_only) {
    const absl::StatusOr<v1::SampleSummary> summary =
        client->ValidateSample(arguments.rows.context, sent, options, environment->call());
    RETURN_IF_ERROR(WithLine(summary.status(), arguments.rows.file, rows,
                             groups.InFile(options.known), groups.order));
    NoteWarnings(summary->warnings(), *environment);
    return WriteEstimate(summary->estimate(), *environment);
  }
  const SampleTitle title{arguments.rows.context, rows.context.target_column(), groups.labels,
                          groups.OfRows()};
  SampleOutput output(arguments, title, environment);
  RETURN_IF_ERROR(output.Check());
  const bool has_weights = arguments.total.total.has_value();
  if (!has_weights) {
    options.on_paths = [&](const Samples& paths) { return output.Add(groups.InFile(paths)); };
  }
  absl::StatusOr<Samples> samples;
  {
    const int64_t steps = rows.features.row_count() - options.known.rows_size();
    Progress progress("values drawn", arguments.paths * steps, environment->progress());
    options.on_progress = [&progress](int64_t values) { progress.Update(values); };
    samples = client->Sample(arguments.rows.context, sent, options, environment->call());
  }
  if (EndedEarly(samples.status())) output.EndEarly(*options.seed);
  RETURN_IF_ERROR(WithLine(samples.status(), arguments.rows.file, rows,
                           groups.InFile(options.known), groups.order));
  NoteSummary(samples->summary, *environment);
  NoteEffectivePaths(samples->summary, samples->path_count, groups.labels, *environment);
  if (has_weights && (arguments.total.resample || arguments.summary)) {
    ASSIGN_OR_RETURN(samples,
                     Resample(*samples, options.group_sizes, arguments.paths, *options.seed));
  }
  samples = groups.InFile(*std::move(samples));
  const auto& log_densities = samples->summary.known_log_densities();
  NoteKnown(options.known, {log_densities.begin(), log_densities.end()}, *environment);
  NoteWarnings(samples->summary.warnings(), *environment);
  if (!arguments.summary) return output.Finish(*samples);
  const Format format = environment->format(Environment::Readers::kPeople);
  const Comparison comparison = arguments.given ? Comparison::kOmit : Comparison::kInclude;
  return environment->Write([&](std::ostream& out) {
    WriteSampleSummary(*samples, actual, comparison, title, format, &out);
  });
}

}  // namespace

void AddSampleCommand(CLI::App* app, Environment* environment) {
  auto arguments = std::make_shared<SampleArguments>();
  CLI::App* command = AddCommand(app, environment, "sample",
                                 "Draw joint sample paths over query rows", arguments, RunSample);
  AddQueryRowsOptions(command, &arguments->rows);
  command->add_option("--paths", arguments->paths, "Number of joint sample paths")
      ->transform(IntegerBetween(1, 1'000'000'000))
      ->type_name("B")
      ->capture_default_str();
  CLI::Option* const seed = AddSeedOption(
      command, &arguments->seed,
      "Seed: the same context, rows and seed give the same samples. With the same seed, samples "
      "of different contexts are independent, but samples of different rows of a context are not. "
      "Without it, a random seed, which is written to standard error");
  CLI::Option* const first_path =
      command
          ->add_option(
              "--first-path", arguments->first_path,
              "Index of the first path: draw the paths N to N + B - 1 of the seed, with the "
              "values that they have in a call for all paths")
          ->transform(IntegerBetween(0, std::numeric_limits<int32_t>::max()))
          ->type_name("N")
          ->needs(seed);
  command
      ->add_option(
          "--order", arguments->order,
          "Order in which a path draws the rows: that of ROWS, or a random order for each path")
      ->check(CLI::IsMember({"given", "random"}))
      ->capture_default_str();
  AddSamplingOption(command, &arguments->sampling);
  command->add_flag(
      "--log-density", arguments->log_density,
      "Also write the natural log-density of each value, conditional on the earlier values of its "
      "path");
  AddGivenFlag(command, &arguments->given,
               "Draw these other rows, conditional on the known values");
  AddTotalOptions(command, &arguments->total);
  AddGroupByOption(command, &arguments->rows,
                   "Draw the paths of each group separately: the groups are independent");
  command->add_flag(
      "--wrap", arguments->wrap,
      "Allow more rows, in a group, than the model was trained for (buffer_size in 'chorale "
      "models')");
  AddNoSnapFlag(command, &arguments->no_snap);
  AddLocalRowsOption(command, &arguments->local_rows);
  command->add_flag(
      "--summary", arguments->summary,
      "Write a summary instead of the samples: statistics of each row, and joint statistics. If "
      "ROWS has the target column, the column 'actual' has its values, and the samples are "
      "compared "
      "with them unless --given is set");
  command
      ->add_flag(
          "--append", arguments->append,
          "Continue CSV output that ends before --first-path: write no header; with --output "
          "FILE, continue FILE.partial, and replace FILE by it")
      ->needs(first_path)
      ->excludes("--summary")
      ->excludes("--total");
  command->add_flag("--validate-only", arguments->validate_only,
                    "Validate the call without drawing samples, and write the device memory and "
                    "the estimated time that it needs");
  command->footer(
      "Writes a line for each path and row, both numbered from 0, with the value in the target's\n"
      "units. The JSON format is an object with arrays [paths][rows]. With --given, known values\n"
      "have lines on each path, without a log-density. With --group-by, steps count from 0 in "
      "each\n"
      "group.\n\n"
      "CSV is written path by path, as soon as a path and all before it are complete; with\n"
      "--output FILE, to FILE.partial, which replaces FILE at the end. If the command ends early,\n"
      "by Ctrl-C, --timeout or a lost connection, the complete paths remain in the output or in\n"
      "FILE.partial, and it writes the command that draws the others to standard error. In JSON,\n"
      "the others become an object of their own.\n\n"
      "With --total, each line has the natural logarithm of the weight of its path (log_weight; "
      "in\n"
      "JSON log_weights, null for the weight 0). The weights are known at the end, so a command\n"
      "that ends early writes no paths. Expectations are means with these weights. --resample and\n"
      "--summary write paths of equal weight, and statistics of them.\n\n"
      "Examples:\n"
      "  chorale sample houses new.csv --paths 1000 --seed 7 --output samples.csv\n"
      "  chorale sample houses new.csv --paths 1000 --summary\n"
      "  chorale sample sales month.csv --given --summary\n"
      "  chorale sample sales month.csv --paths 2000 --total 1000:1200 --resample");
}

}  // namespace chorale::client
