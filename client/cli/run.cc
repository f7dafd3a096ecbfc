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
    "Results go to standard output, everything else to standard error.\n\n"
    "Exit codes:\n"
    "  0  success\n"
    "  1  the server failed, did not answer in time, cannot be reached, or does not allow the "
    "call\n"
    "  2  wrong usage, or a file or value that cannot be used\n"
    "  3  no such context or model\n"
    "  4  the name is taken by other content\n"
    "  5  the server is full or shutting down, or a quota is used up for now: try again later\n"
    "  130  interrupted by Ctrl-C; 143: by SIGTERM; 129: by SIGHUP\n\n"
    "Example:\n"
    "  chorale register houses.csv --target price\n"
    "  chorale sample houses new.csv --paths 1000 --summary";

void AddSharedOptions(CLI::App* app, SharedOptions* options) {
  app->add_option("--server", options->server,
                  "The server's address; also unix:PATH, and https://HOST:PORT for TLS")
      ->envname("CHORALE_SERVER")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app->add_option("--format", options->format,
                  "Format of results: csv, json or table [table for listings and summaries on a "
                  "terminal, else csv]")
      ->check(CLI::IsMember({"csv", "json", "table"}))
      ->type_name("FORMAT");
  app->add_option("--output", options->output, "Write results to a file")->type_name("FILE");
  app->add_option("--timeout", options->timeout_s, "Seconds that one call may take")
      ->check(SecondsBetween(0.001, std::numeric_limits<double>::infinity()))
      ->type_name("SECONDS")
      ->capture_default_str();
  app->add_option("--connect-timeout", options->connect_timeout_s,
                  "Seconds to wait for a server that is not running yet")
      ->check(SecondsBetween(0.001, std::numeric_limits<double>::infinity()))
      ->type_name("SECONDS")
      ->capture_default_str();
  app->add_option("--retries", options->retries, "Retries when the server is full or shutting down")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N")
      ->capture_default_str();
  app->add_flag("--quiet,-q", options->quiet, "No notes and no progress on standard error");
  app->add_flag("--tls", options->tls, "Encrypt; implied by the options below")->group("TLS");
  app->add_option("--tls-ca", options->tls_ca, "Certificates to trust, PEM [the system's]")
      ->type_name("FILE")
      ->group("TLS");
  CLI::Option* certificate =
      app->add_option("--tls-cert", options->tls_cert, "This client's certificate, PEM")
          ->type_name("FILE")
          ->group("TLS");
  CLI::Option* key = app->add_option("--tls-key", options->tls_key, "Its private key, PEM")
                         ->type_name("FILE")
                         ->group("TLS");
  app->add_option("--token-file", options->token_file,
                  "File with the bearer token [the environment's CHORALE_TOKEN]")
      ->type_name("FILE")
      ->group("TLS");
  certificate->needs(key);
  key->needs(certificate);
}

// What the user can do about an error, if the message does not say so.
std::string Hint(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kDeadlineExceeded)
    return " - allow more time with --timeout";
  if (status.code() == absl::StatusCode::kInvalidArgument &&
      absl::StrContains(status.message(), "beyond_buffer")) {
    return " - allow more rows with --wrap";
  }
  return "";
}

int ParseAndRun(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  // gRPC would log errors that the command reports itself. No other thread is running yet.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // NOLINT(concurrency-mt-unsafe)
  CLI::App app("Joint samples, predictions and densities from a Chorale server.", "chorale");
  Environment environment;
  app.set_version_flag("--version", "chorale " CHORALE_VERSION);
  app.fallthrough();
  app.require_subcommand(0, 1);
  app.footer(kFooter);
  AddSharedOptions(&app, &environment.options);
  AddRegisterCommand(&app, &environment);
  AddContextCommands(&app, &environment);
  AddPredictCommand(&app, &environment);
  AddSampleCommand(&app, &environment);
  AddLogDensityCommand(&app, &environment);
  AddModelsCommand(&app, &environment);
  AddBenchCommand(&app, &environment);
  AddTokenCommand(&app, &environment);
  try {
    app.parse(argc, argv);
    // Checked here and not by require_subcommand, so that the error names a misspelt command.
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A command");
  } catch (const CLI::Success& help) {
    const int code = app.exit(help);
    std::cout.flush();
    if (std::cout) return code;
    std::cerr << "chorale: cannot write to standard output\n";
    return static_cast<int>(ExitCode::kBadInput);
  } catch (const CLI::ParseError& error) {
    std::cerr << "chorale: " << Printable(error.what()) << "\nSee chorale --help\n";
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
