// chorale bench
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/cli/bench_load.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"

namespace chorale::client {
namespace {

// How long the contexts of the load may take to be deleted after an interrupt.
constexpr absl::Duration kCleanupTimeout = absl::Seconds(10);

struct BenchArguments {
  std::string method = "sample";
  std::vector<int> concurrency = {1, 8, 64};
  int64_t contexts = 8;
  int64_t context_rows = 1024;
  int64_t features = 5;
  int64_t query_rows = 32;
  int64_t paths = 512;
  std::string model;
  double warm_up_s = 1.0;
  double duration_s = 5.0;
};

BenchLoad LoadOf(const BenchArguments& arguments) {
  BenchLoad load;
  if (arguments.method == "predict") load.method = BenchLoad::Method::kPredict;
  if (arguments.method == "log-density") load.method = BenchLoad::Method::kLogDensity;
  load.features = arguments.features;
  load.query_rows = arguments.query_rows;
  load.paths = arguments.paths;
  load.warm_up = absl::Seconds(arguments.warm_up_s);
  load.duration = absl::Seconds(arguments.duration_s);
  // A name that no other run has, and that says where a context left behind comes from.
  const auto run = static_cast<uint32_t>(std::random_device{}());
  for (int64_t context = 0; context < arguments.contexts; ++context) {
    load.contexts.push_back(absl::StrFormat("bench-%08x-%d", run, context));
  }
  return load;
}

// Counts in `registered` those that there are afterwards.
absl::Status RegisterContexts(const BenchArguments& arguments, const BenchLoad& load,
                              Client* client, const Environment& environment, int64_t* registered) {
  Progress progress("contexts registered", arguments.contexts, environment.progress());
  for (int64_t context = 0; context < arguments.contexts; ++context) {
    const std::string& id = load.contexts[context];
    const absl::Status status =
        client
            ->RegisterContext(id, BenchTable(context, arguments.context_rows, arguments.features),
                              {.target_column = "y",
                               .model = arguments.model,
                               .seasons = RegisterOptions::Seasons::kNotSought},
                              environment.call())
            .status();
    // One that was interrupted may have arrived.
    if (status.ok() || absl::IsCancelled(status) || absl::IsUnavailable(status)) {
      *registered = context + 1;
    }
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(client->WarmContext(id, environment.call()).status());
    progress.Update(context + 1);
  }
  return absl::OkStatus();
}

// Whatever became of the run, and with calls of its own, which an interrupt does not cancel.
// Returns the first error, if contexts may be left.
absl::Status DeleteContexts(const BenchLoad& load, int64_t registered, Client* client,
                            const Environment& environment) {
  const absl::Time deadline = absl::Now() + kCleanupTimeout;
  absl::Status result;
  for (int64_t context = 0; context < registered; ++context) {
    const std::string& id = load.contexts[context];
    const absl::Duration left = deadline - absl::Now();
    absl::Status status = left > absl::ZeroDuration()
                              ? client->DeleteContext(id, {.timeout = left})
                              : absl::DeadlineExceededError("there was no time left");
    if (status.ok() || absl::IsNotFound(status)) continue;
    environment.Note(absl::StrCat("context '", id, "' is not deleted: ", status.message()));
    result.Update(std::move(status));
  }
  return result;
}

Cell PercentileOrNothing(const std::vector<double>& sorted, double p) {
  return sorted.empty() ? Cell() : Cell(Percentile(sorted, p));
}

// Appends a line for each concurrency that was measured.
absl::Status Measure(const BenchArguments& arguments, const BenchLoad& load,
                     const Environment& environment, std::vector<std::vector<Cell>>* lines) {
  const ConnectClient connect = [&](auto on_retry) {
    return environment.ConnectAnother(std::move(on_retry));
  };
  for (const int concurrency : arguments.concurrency) {
    environment.Note(
        absl::StrFormat("concurrency %d: measuring for %g s", concurrency, arguments.duration_s));
    const absl::StatusOr<BenchResult> result =
        RunBench(load, concurrency, connect, environment.call());
    RETURN_IF_ERROR(result.status());
    if (result->call_ms.empty()) {
      environment.Note("no call ended within the duration: allow more with --duration");
    }
    if (result->unavailable > 0) {
      environment.Note(absl::StrCat("the server was unavailable to ", result->unavailable,
                                    " attempts: the rates of this line include that time"));
    }
    lines->push_back({int64_t{concurrency}, result->calls_per_second, result->values_per_second,
                      PercentileOrNothing(result->first_values_ms, 0.50),
                      PercentileOrNothing(result->first_values_ms, 0.99),
                      PercentileOrNothing(result->call_ms, 0.50),
                      PercentileOrNothing(result->call_ms, 0.99), result->refused,
                      result->unavailable});
  }
  return absl::OkStatus();
}

absl::Status WriteLines(const std::vector<std::vector<Cell>>& lines,
                        const Environment& environment) {
  const Format format = environment.format(Environment::Readers::kPeople);
  return environment.Write([&](std::ostream& out) {
    ReportWriter report(
        {"concurrency", "calls_per_second", "values_per_second", "first_values_ms_p50",
         "first_values_ms_p99", "call_ms_p50", "call_ms_p99", "refused", "unavailable"},
        format, &out);
    for (const std::vector<Cell>& line : lines) report.Add(line);
    report.Finish();
  });
}

// What was measured is written, also when the rest failed or was interrupted.
absl::Status RunBenchCommand(const BenchArguments& arguments, Environment* environment) {
  const BenchLoad load = LoadOf(arguments);
  absl::StatusOr<Client*> client = environment->Connect();
  RETURN_IF_ERROR(client.status());
  int64_t registered = 0;
  std::vector<std::vector<Cell>> lines;
  absl::Status status = RegisterContexts(arguments, load, *client, *environment, &registered);
  if (status.ok()) status = Measure(arguments, load, *environment, &lines);
  status.Update(DeleteContexts(load, registered, *client, *environment));
  if (status.ok() || !lines.empty()) status.Update(WriteLines(lines, *environment));
  return status;
}

}  // namespace

void AddBenchCommand(CLI::App* app, Environment* environment) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = AddCommand(app, environment, "bench",
                                 "Measure how many values a second the server draws, and how soon",
                                 arguments, RunBenchCommand);
  command->add_option("--method", arguments->method, "The calls to make")
      ->check(CLI::IsMember({"sample", "predict", "log-density"}))
      ->capture_default_str();
  command
      ->add_option("--concurrency", arguments->concurrency,
                   "Numbers of clients, measured one after the other. Each client has connections "
                   "of its own and one call at a time")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 4096))
      ->type_name("N,...")
      ->capture_default_str();
  const auto add_count = [&](const std::string& name, int64_t* count, int64_t most,
                             const std::string& description) {
    command->add_option(name, *count, description)
        ->check(CLI::Range(int64_t{1}, most))
        ->type_name("N")
        ->capture_default_str();
  };
  add_count("--contexts", &arguments->contexts, 1'000'000, "Contexts, in turn among the clients");
  add_count("--context-rows", &arguments->context_rows, 1'000'000'000, "Rows of a context");
  add_count("--features", &arguments->features, 100'000, "Numeric features of a context");
  add_count("--query-rows", &arguments->query_rows, 1'000'000, "Rows of a call");
  add_count("--paths", &arguments->paths, 1'000'000'000,
            "Paths of a call; for log-density, its vectors of values");
  command->add_option("--model", arguments->model, "Model of the contexts [the server's default]")
      ->type_name("NAME");
  const auto add_time = [&](const std::string& name, double* seconds, double least,
                            const std::string& description) {
    command->add_option(name, *seconds, description)
        ->check(CLI::Range(least, 86400.0))
        ->type_name("SECONDS")
        ->capture_default_str();
  };
  add_time("--warm-up", &arguments->warm_up_s, 0.0, "Time before each measurement");
  add_time("--duration", &arguments->duration_s, 0.1, "Time of each measurement");
  command->footer(
      "Registers contexts with names bench-..., and deletes them at the end, also after Ctrl-C.\n"
      "Needs the role register. Writes a line for each number of clients: calls and values that\n"
      "arrived a second; the median and the 99th percentile of the times to the first values and\n"
      "to the end of a call; and how many attempts were refused, because the server was full or a\n"
      "quota was used up, or found no server.\n"
      "Measure from another machine: here, the clients take processor time from the server.\n\n"
      "Example:\n"
      "  chorale bench --concurrency 1,8,64 --paths 512 --query-rows 32");
}

}  // namespace chorale::client
