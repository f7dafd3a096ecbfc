#include "client/cli/environment.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/exit_code.h"

namespace chorale::client {
namespace {

// Set by the signal handler, which can only use globals.
Cancellation interrupted;

void OnSignal(int) {
  if (interrupted.cancelled()) _exit(static_cast<int>(ExitCode::kInterrupted));
  interrupted.Cancel();
}

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

absl::StatusOr<std::string> ReadFile(const std::string& option, const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf())) {
    return absl::InvalidArgumentError(absl::StrCat(option, ": cannot read '", path, "'"));
  }
  return std::move(content).str();
}

// Of the file, or else of the environment. A command line is no place for a secret: everybody on
// the machine can read it.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  std::string token;
  if (!path.empty()) {
    absl::StatusOr<std::string> file = ReadFile("--token-file", path);
    RETURN_IF_ERROR(file.status());
    token = *std::move(file);
    // No thread changes the environment. NOLINTNEXTLINE(concurrency-mt-unsafe)
  } else if (const char* variable = std::getenv("CHORALE_TOKEN"); variable != nullptr) {
    token = variable;
  }
  absl::StripAsciiWhitespace(&token);
  if (!path.empty() && token.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--token-file: '", path, "' is empty"));
  }
  return token;
}

}  // namespace

absl::StatusOr<ClientOptions> Environment::MakeClientOptions() const {
  ClientOptions result;
  result.connect_timeout = absl::Seconds(options.connect_timeout_s);
  result.call_timeout = absl::Seconds(options.timeout_s);
  result.retry.max_attempts = options.retries + 1;
  result.retry.on_retry = [this](const absl::Status& why, absl::Duration delay) {
    Note(absl::StrCat(why.message(), " - waiting ",
                      absl::FormatDuration(absl::Trunc(delay, absl::Milliseconds(1)))));
  };
  absl::StatusOr<std::string> token = ReadToken(options.token_file);
  RETURN_IF_ERROR(token.status());
  result.token = *std::move(token);
  if (!options.tls && options.tls_ca.empty() && options.tls_cert.empty()) return result;
  TlsOptions tls;
  for (auto [option, path, content] : {
           std::tuple{"--tls-ca", &options.tls_ca, &tls.root_certificates},
           std::tuple{"--tls-cert", &options.tls_cert, &tls.client_certificate},
           std::tuple{"--tls-key", &options.tls_key, &tls.client_key},
       }) {
    absl::StatusOr<std::string> file = ReadFile(option, *path);
    RETURN_IF_ERROR(file.status());
    *content = *std::move(file);
  }
  result.tls = std::move(tls);
  return result;
}

absl::StatusOr<Client*> Environment::Connect() {
  if (client_ != nullptr) return client_.get();
  CatchInterrupts();
  absl::StatusOr<ClientOptions> client_options = MakeClientOptions();
  RETURN_IF_ERROR(client_options.status());
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(options.server, *client_options, &interrupted);
  if (client.status().code() == absl::StatusCode::kUnavailable) {
    // Not Unavailable, which means "try again": retrying does not start a server.
    return absl::UnknownError(absl::StrCat(
        client.status().message(),
        " - start one with `chorale-server`, or name another one with --server or CHORALE_SERVER"));
  }
  RETURN_IF_ERROR(client.status());
  client_ = *std::move(client);
  return client_.get();
}

CallOptions Environment::call() const {
  return CallOptions{.timeout = absl::Seconds(options.timeout_s), .cancellation = &interrupted};
}

Format Environment::format(Readers readers) const {
  if (options.format == "csv") return Format::kCsv;
  if (options.format == "json") return Format::kJson;
  if (options.format == "table") return Format::kTable;
  const bool terminal = options.output.empty() && isatty(STDOUT_FILENO) == 1;
  return readers == Readers::kPeople && terminal ? Format::kTable : Format::kCsv;
}

absl::Status Environment::Write(absl::FunctionRef<void(std::ostream&)> write) const {
  if (options.output.empty()) {
    write(std::cout);
    std::cout.flush();
    if (!std::cout) return absl::InvalidArgumentError("cannot write to standard output");
    return absl::OkStatus();
  }
  std::error_code error;
  // A rename would replace a pipe or a device.
  const bool special = std::filesystem::exists(options.output, error) &&
                       !std::filesystem::is_regular_file(options.output, error);
  const std::string partial = special ? options.output : options.output + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  write(file);
  file.close();
  if (file && special) return absl::OkStatus();
  if (file) std::filesystem::rename(partial, options.output, error);
  if (file && !error) return absl::OkStatus();
  std::error_code ignored;
  if (!special) std::filesystem::remove(partial, ignored);
  return absl::InvalidArgumentError(absl::StrCat("--output: cannot write '", options.output, "'"));
}

void Environment::Note(absl::string_view text) const {
  if (!options.quiet) std::cerr << "chorale: " << text << '\n';
}

Progress::Display Environment::progress() const {
  if (options.quiet) return Progress::Display::kNone;
  return isatty(STDERR_FILENO) == 1 ? Progress::Display::kTerminal : Progress::Display::kLines;
}

}  // namespace chorale::client
