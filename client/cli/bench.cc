// chorale bench
#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/cli/bench_load.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cpp/connection.h"

namespace chorale::client {
namespace {

// The maximum number of values in the table of a context, which is created in memory: 1 GiB.
constexpr int64_t kMaxContextValues = int64_t{1} << 27;
// The maximum number of values in a call.
constexpr int64_t kMaxCallValues = kMaxMessageBytes / int64_t{sizeof(double)};
// The number of consecutive failed deletions after which the remaining contexts are not deleted.
constexpr int kMostFailedDeletions = 3;

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
  // The prefix identifies the origin of remaining contexts; the number makes the name unique.
  const auto run = static_cast<uint32_t>(std::random_device{}());
  for (int64_t context = 0; context < arguments.contexts; ++context) {
    load.contexts.push_back(absl::StrFormat("bench-%08x-%d", run, context));
  }
  return load;
}

// The number of contexts of a run that may be on the server.
struct Registrations {
  int64_t attempted = 0;  // the first contexts of the load
  int64_t acknowledged = 0;
};

// InvalidArgument, before anything is registered, for sizes that servers reject or that exceed the
// memory of this process. The limits of the options keep the products below 2^63.
absl::Status CheckSizes(const BenchArguments& arguments) {
  const auto check = [](absl::string_view flags, int64_t values, int64_t limit,
                        absl::string_view unit) {
    return values <= limit ? absl::OkStatus()
                           : absl::InvalidArgumentError(absl::StrCat(
                                 flags, ": ", values, " exceeds the limit of ", limit, " ", unit));
  };
  RETURN_IF_ERROR(check("--context-rows x (--features + 1)",
                        arguments.context_rows * (arguments.features + 1), kMaxContextValues,
                        "values per context"));
  RETURN_IF_ERROR(check("--query-rows x --features", arguments.query_rows * arguments.features,
                        kMaxCallValues, "values per call"));
  if (arguments.method != "log-density") return absl::OkStatus();
  return check("--paths x --query-rows", arguments.paths * arguments.query_rows, kMaxCallValues,
               "values per call");
}

absl::Status RegisterContexts(const BenchArguments& arguments, const BenchLoad& load,
                              Client* client, const Environment& environment,
                              Registrations* registrations) {
  Progress progress("contexts registered", arguments.contexts, environment.progress());
  for (int64_t context = 0; context < arguments.contexts; ++context) {
    const std::string& id = load.contexts[context];
    const DataFrame table = BenchTable(context, arguments.context_rows, arguments.features);
    registrations->attempted = context + 1;
    RETURN_IF_ERROR(client
                        ->RegisterContext(id, table,
                                          {.target_column = "y",
                                           .model = arguments.model,
                                           .seasons = RegisterOptions::Seasons::kNotSought},
                                          environment.call())
                        .status());
    registrations->acknowledged = context + 1;
    RETURN_IF_ERROR(client->WarmContext(id, environment.call()).status());
    progress.Update(context + 1);
  }
  return absl::OkStatus();
}

// Returns `status` with its details and another message.
absl::Status WithMessage(const absl::Status& status, absl::string_view message) {
  absl::Status result(status.code(), message);
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

// Deletes the contexts of a run, also after an error. Also deletes a context whose registration
// failed, because the server may have it. Returns `status`, the status of the run; if it is OK and
// contexts remain, the first error of a deletion.
absl::Status DeleteContexts(const BenchLoad& load, const Registrations& registrations,
                            Client* client, const Environment& environment, absl::Status status) {
  absl::Status first_error;
  std::vector<std::string> left;
  int failed = 0;  // in succession
  for (int64_t context = 0; context < registrations.attempted; ++context) {
    const std::string& id = load.contexts[context];
    // Stop if the server does not respond, or on a second Ctrl-C.
    if (failed < kMostFailedDeletions) {
      const absl::Status deleted = client->DeleteContext(id, {}, environment.cleanup_call());
      if (deleted.ok() || absl::IsNotFound(deleted)) {
        failed = 0;
        continue;
      }
      failed = absl::IsCancelled(deleted) ? kMostFailedDeletions : failed + 1;
      first_error.Update(deleted);
    }
    if (context < registrations.acknowledged) left.push_back(id);
  }
  if (left.empty()) return status;
  const std::string what =
      absl::StrCat(left.size() == 1 ? absl::StrCat("context '", left[0], "' was")
                                    : absl::StrCat(left.size(), " contexts from '", left.front(),
                                                   "' to '", left.back(), "' were"),
                   " not deleted (", first_error.message(), "): delete ",
                   left.size() == 1 ? "it" : "them", " with 'chorale rm'");
  if (status.ok()) return WithMessage(first_error, what);
  return WithMessage(status, absl::StrCat(status.message(), "; ", what));
}

Cell PercentileOrNothing(const std::vector<double>& sorted, double p) {
  return sorted.empty() ? Cell() : Cell(Percentile(sorted, p));
}

// Appends a line for each measured concurrency.
absl::Status Measure(const BenchArguments& arguments, const BenchLoad& load,
                     const Environment& environment, std::vector<std::vector<Cell>>* lines) {
  const ConnectClient connect = [&](auto on_retry) {
    return environment.ConnectAnother(std::move(on_retry));
  };
  for (const int concurrency : arguments.concurrency) {
    environment.Note(
        absl::StrFormat("concurrency %d: measuring for %g s", concurrency, arguments.duration_s));
    ASSIGN_OR_RETURN(const BenchResult result,
                     RunBench(load, concurrency, connect, environment.call()));
    if (result.call_ms.empty()) {
      environment.Note("no call was completed during the measurement: increase --duration");
    }
    if (result.unavailable > 0) {
      environment.Note(absl::StrCat("the server was unavailable for ", result.unavailable,
                                    " attempts; the rates of this line include this time"));
    }
    lines->push_back({int64_t{concurrency}, result.calls_per_second, result.values_per_second,
                      PercentileOrNothing(result.first_values_ms, 0.50),
                      PercentileOrNothing(result.first_values_ms, 0.99),
                      PercentileOrNothing(result.call_ms, 0.50),
                      PercentileOrNothing(result.call_ms, 0.99), result.refused,
                      result.unavailable});
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

// Registers contexts, which the caller deletes, and measures. Throws no exceptions.
absl::Status RegisterAndMeasure(const BenchArguments& arguments, const BenchLoad& load,
                                Client* client, const Environment& environment,
                                Registrations* registrations,
                                std::vector<std::vector<Cell>>* lines) {
  try {
    RETURN_IF_ERROR(RegisterContexts(arguments, load, client, environment, registrations));
    return Measure(arguments, load, environment, lines);
  } catch (const std::exception& error) {  // std::bad_alloc
    return absl::InternalError(absl::StrCat("bench: ", error.what()));
  }
}

// Writes the completed measurements even if a later measurement failed or was interrupted.
absl::Status RunBenchCommand(const BenchArguments& arguments, Environment* environment) {
  RETURN_IF_ERROR(CheckSizes(arguments));
  RETURN_IF_ERROR(environment->CheckOutput());
  const BenchLoad load = LoadOf(arguments);
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  environment->PrepareCleanup();
  Registrations registrations;
  std::vector<std::vector<Cell>> lines;
  absl::Status status =
      RegisterAndMeasure(arguments, load, client, *environment, &registrations, &lines);
  status = DeleteContexts(load, registrations, client, *environment, std::move(status));
  if (status.ok() || !lines.empty()) status.Update(WriteLines(lines, *environment));
  return status;
}

}  // namespace

void AddBenchCommand(CLI::App* app, Environment* environment) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command =
      AddCommand(app, environment, "bench", "Measure the throughput and the latency of the server",
                 arguments, RunBenchCommand);
  command->add_option("--method", arguments->method, "Calls to measure")
      ->check(CLI::IsMember({"sample", "predict", "log-density"}))
      ->capture_default_str();
  command
      ->add_option(
          "--concurrency", arguments->concurrency,
          "Numbers of concurrent clients, measured one after the other. Each client has its "
          "own connections, and makes one call at a time")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(IntegerBetween(1, 4096))
      ->type_name("N,...")
      ->capture_default_str();
  const auto add_count = [&](const std::string& name, int64_t* count, uint64_t most,
                             const std::string& description) {
    command->add_option(name, *count, description)
        ->transform(IntegerBetween(1, most))
        ->type_name("N")
        ->capture_default_str();
  };
  add_count("--contexts", &arguments->contexts, 1'000'000,
            "Number of contexts, which the clients use in turn");
  add_count("--context-rows", &arguments->context_rows, 1'000'000'000, "Rows per context");
  add_count("--features", &arguments->features, 100'000, "Numeric features per context");
  add_count("--query-rows", &arguments->query_rows, 1'000'000, "Query rows per call");
  add_count("--paths", &arguments->paths, 1'000'000'000,
            "Paths per call; for log-density, vectors of values per call");
  command->add_option("--model", arguments->model, "Model of the contexts [the server's default]")
      ->type_name("NAME");
  const auto add_time = [&](const std::string& name, double* seconds, double least,
                            const std::string& description) {
    command->add_option(name, *seconds, description)
        ->check(SecondsBetween(least, 86400.0))
        ->type_name("SECONDS")
        ->capture_default_str();
  };
  add_time("--warm-up", &arguments->warm_up_s, 0.0, "Time before each measurement");
  add_time("--duration", &arguments->duration_s, 0.1, "Duration of each measurement");
  command->footer(
      "Registers contexts named bench-..., and deletes them at the end, also after Ctrl-C. A\n"
      "second Ctrl-C stops the deletion and lists the remaining contexts. Requires the role\n"
      "register.\n\n"
      "Writes a line for each number of clients: completed calls and received values per second;\n"
      "the median and the 99th percentile of the times to the first values and to the end of a\n"
      "call; the number of attempts that the server refused because it was full or a quota was\n"
      "used up; and the number of attempts that found the server unavailable.\n\n"
      "Do not measure on the machine of the server: the clients would take processor time from\n"
      "it.\n\n"
      "Example:\n"
      "  chorale bench --concurrency 1,8,64 --paths 512 --query-rows 32");
}

}  // namespace chorale::client
