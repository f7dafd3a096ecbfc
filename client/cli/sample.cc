// chorale sample
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/given.h"
#include "client/cli/group_by.h"
#include "client/cli/report.h"
#include "client/cli/sample_report.h"

namespace chorale::client {
namespace {

struct SampleArguments {
  RowsOptions rows;
  int64_t paths = 100;
  std::optional<uint64_t> seed;
  std::string order = "given";
  std::string sampling = "independent";
  bool log_density = false;
  bool given = false;
  bool wrap = false;
  bool no_snap = false;
  int64_t local_rows = 0;
  bool summary = false;
  bool validate_only = false;
};

SampleOptions ToOptions(const SampleArguments& arguments) {
  SampleOptions options;
  options.path_count = arguments.paths;
  options.seed = arguments.seed;
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

// Writes the values that were drawn before the stream failed. The command returns the error.
void WriteDrawn(const Samples& samples, const SampleTitle& title, const Environment& environment) {
  const auto missing = std::count_if(samples.values.begin(), samples.values.end(),
                                     [](double value) { return std::isnan(value); });
  const int64_t wanted = samples.path_count * samples.step_count;
  const Format format = environment.format(Environment::Readers::kPrograms);
  absl::StatusOr<std::string> file = environment.WritePartial(
      [&](std::ostream& out) { WriteSamples(samples, title, format, &out); });
  environment.Note(absl::StrCat(
      wanted - missing, " of ", wanted, " values were drawn; ",
      file.ok() ? absl::StrCat("written to ", *file) : std::string(file.status().message())));
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
  absl::StatusOr<Samples> samples;
  std::optional<Samples> drawn;
  options.on_broken = [&drawn](Samples values) { drawn = std::move(values); };
  {
    const int64_t steps = rows.features.row_count() - options.known.rows_size();
    Progress progress("values drawn", arguments.paths * steps, environment->progress());
    options.on_progress = [&progress](int64_t values) { progress.Update(values); };
    samples = client->Sample(arguments.rows.context, sent, options, environment->call());
  }
  const SampleTitle title{arguments.rows.context, rows.context.target_column(), groups.labels};
  if (!samples.ok() && drawn.has_value() && !arguments.summary) {
    WriteDrawn(groups.InFile(*std::move(drawn)), title, *environment);
  }
  RETURN_IF_ERROR(WithLine(samples.status(), arguments.rows.file, rows,
                           groups.InFile(options.known), groups.order));
  samples = groups.InFile(*std::move(samples));
  NoteSummary(samples->summary, *environment);
  const auto& log_densities = samples->summary.known_log_densities();
  NoteKnown(options.known, {log_densities.begin(), log_densities.end()}, *environment);
  NoteWarnings(samples->summary.warnings(), *environment);
  if (arguments.summary) {
    const Format format = environment->format(Environment::Readers::kPeople);
    const Comparison comparison = arguments.given ? Comparison::kOmit : Comparison::kInclude;
    return environment->Write([&](std::ostream& out) {
      WriteSampleSummary(*samples, actual, comparison, title, format, &out);
    });
  }
  const Format format = environment->format(Environment::Readers::kPrograms);
  return environment->Write(
      [&](std::ostream& out) { WriteSamples(*samples, title, format, &out); });
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
  AddSeedOption(
      command, &arguments->seed,
      "Seed: the same context, rows and seed give the same samples. With the same seed, samples "
      "of different contexts are independent, but samples of different rows of a context are not. "
      "Without it, the server chooses a seed");
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
  command->add_flag("--validate-only", arguments->validate_only,
                    "Validate the call without drawing samples, and write the device memory and "
                    "the estimated time that it needs");
  command->footer(
      "Writes a line for each path and row, both numbered from 0, with the value in the target's\n"
      "units. The JSON format is an object with arrays [paths][rows]. With --given, known values\n"
      "have lines on each path, without a log-density. With --group-by, steps count from 0 in "
      "each\n"
      "group.\n\n"
      "Examples:\n"
      "  chorale sample houses new.csv --paths 1000 --seed 7 --output samples.csv\n"
      "  chorale sample houses new.csv --paths 1000 --summary\n"
      "  chorale sample sales month.csv --given --summary");
}

}  // namespace chorale::client
