#include "client/cli/run.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/environment.h"
#include "client/cli/exit_code.h"
#include "client/cli/printable.h"

namespace chorale::client {
namespace {

constexpr char kFooter[] =
    "Results go to standard output; warnings, progress and errors go to standard error.\n\n"
    "Exit codes:\n"
    "  0    success\n"
    "  1    the server failed, timed out, is unreachable, or denied the call\n"
    "  2    invalid usage, or an invalid file or value\n"
    "  3    the context or model does not exist\n"
    "  4    the context has different content, or another etag or number of rows\n"
    "  5    temporary: the server is full or shutting down, or a quota is used up\n"
    "  129  ended by SIGHUP; 130: by Ctrl-C; 143: by SIGTERM\n\n"
    "Example:\n"
    "  chorale register houses.csv --target price\n"
    "  chorale sample houses new.csv --paths 1000 --summary";

void AddSharedOptions(CLI::App* app, SharedOptions* options) {
  app->add_option("--server", options->server,
                  "Address of the server; also unix:PATH, or https://HOST:PORT for TLS")
      ->envname("CHORALE_SERVER")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app->add_option("--format", options->format,
                  "Format of results: csv, json or table [table for listings and summaries on a "
                  "terminal, otherwise csv]")
      ->check(CLI::IsMember({"csv", "json", "table"}))
      ->type_name("FORMAT");
  app->add_option("--output", options->output, "Write results to FILE [standard output]")
      ->type_name("FILE");
  app->add_option("--timeout", options->timeout_s, "Timeout of each call in seconds")
      ->check(SecondsBetween(0.001, std::numeric_limits<double>::infinity()))
      ->type_name("SECONDS")
      ->capture_default_str();
  app->add_option("--connect-timeout", options->connect_timeout_s,
                  "Seconds to wait for a server that does not accept connections yet")
      ->check(SecondsBetween(0.001, std::numeric_limits<double>::infinity()))
      ->type_name("SECONDS")
      ->capture_default_str();
  app->add_option("--retries", options->retries,
                  "Retries of a call if the server is full or shutting down")
      ->transform(IntegerBetween(0, 1'000'000))
      ->type_name("N")
      ->capture_default_str();
  app->add_flag("--quiet,-q", options->quiet,
                "Do not print warnings and progress to standard error");
  app->add_flag("--tls", options->tls,
                "Encrypt the connection; implied by --tls-ca, --tls-cert and https://")
      ->group("TLS");
  app->add_option("--tls-ca", options->tls_ca,
                  "PEM file with the certificate authorities to trust [the system's]")
      ->type_name("FILE")
      ->group("TLS");
  CLI::Option* certificate =
      app->add_option("--tls-cert", options->tls_cert, "PEM file with the client certificate")
          ->type_name("FILE")
          ->group("TLS");
  CLI::Option* key =
      app->add_option("--tls-key", options->tls_key, "PEM file with the private key of --tls-cert")
          ->type_name("FILE")
          ->group("TLS");
  app->add_option("--token-file", options->token_file,
                  "File with the bearer token [the environment variable CHORALE_TOKEN]")
      ->type_name("FILE")
      ->group("TLS");
  certificate->needs(key);
  key->needs(certificate);
}

// A remedy for an error whose message does not name it.
std::string Hint(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kDeadlineExceeded) return " - increase --timeout";
  if (status.code() == absl::StatusCode::kInvalidArgument &&
      absl::StrContains(status.message(), "beyond_buffer")) {
    return " - use --wrap to allow more rows";
  }
  return "";
}

int ParseAndRun(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  // gRPC would log errors that the command reports itself. No other thread is running yet.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // NOLINT(concurrency-mt-unsafe)
  CLI::App app("Get joint samples, predictions and log-densities from a Chorale server.",
               "chorale");
  Environment environment;
  environment.words.assign(argv, argv + argc);
  app.set_version_flag("--version", "chorale " CHORALE_VERSION);
  app.fallthrough();
  app.require_subcommand(0, 1);
  app.footer(kFooter);
  AddSharedOptions(&app, &environment.options);
  AddRegisterCommand(&app, &environment);
  AddAppendCommand(&app, &environment);
  AddContextCommands(&app, &environment);
  AddPredictCommand(&app, &environment);
  AddSampleCommand(&app, &environment);
  AddSummarizeCommand(&app, &environment);
  AddLogDensityCommand(&app, &environment);
  AddModelsCommand(&app, &environment);
  AddInfoCommand(&app, &environment);
  AddBenchCommand(&app, &environment);
  AddTokenCommand(&app, &environment);
  try {
    app.parse(argc, argv);
    // Checked here instead of by require_subcommand, so that the error names a misspelt command.
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A command");
  } catch (const CLI::Success& help) {
    const int code = app.exit(help);
    std::cout.flush();
    if (std::cout) return code;
    std::cerr << "chorale: cannot write to standard output\n";
    return static_cast<int>(ExitCode::kBadInput);
  } catch (const CLI::ParseError& error) {
    std::cerr << "chorale: " << Printable(error.what()) << "\nRun 'chorale --help' for usage.\n";
    return static_cast<int>(ExitCode::kBadInput);
  }
  const absl::Status& status = environment.result;
  if (!status.ok()) {
    std::cerr << "chorale: " << Printable(status.message()) << Hint(status) << '\n';
  }
  return static_cast<int>(environment.exit_code());
}

}  // namespace

int Run(int argc, char** argv) {
  // Reports exceptions such as std::bad_alloc.
  try {
    return ParseAndRun(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "chorale: " << Printable(error.what()) << '\n';
    return static_cast<int>(ExitCode::kServerError);
  }
}

}  // namespace chorale::client
