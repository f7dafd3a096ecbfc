#include "client/cli/environment.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/loopback.h"
#include "base/status_macros.h"
#include "client/cli/growing_output.h"
#include "client/cli/output_file.h"
#include "client/cli/printable.h"
#include "client/cpp/server_address.h"

namespace chorale::client {
namespace {

// Set by the signal handler, which can only access globals.
Cancellation interrupted;
Cancellation cleanup_interrupted;  // by a second signal
volatile sig_atomic_t interrupting_signal = 0;
// Whether the command requires a cleanup.
volatile sig_atomic_t cleans_up = 0;

void OnSignal(int signal) {
  if (!interrupted.cancelled()) {
    interrupting_signal = signal;
    interrupted.Cancel();
  } else if (cleans_up != 0 && !cleanup_interrupted.cancelled()) {
    cleanup_interrupted.Cancel();
  } else {
    _exit(static_cast<int>(ExitCodeOfSignal(signal)));
  }
}

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // If nohup made the process ignore SIGHUP, it stays ignored.
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

absl::StatusOr<std::string> ReadFile(const std::string& option, const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  // Opening a folder succeeds, but reading from it fails.
  if (!file.is_open() || file.bad()) {
    return absl::InvalidArgumentError(absl::StrCat(option, ": cannot read '", path, "'"));
  }
  return content;
}

// Returns the token in a file, which may contain comments, like the server's files.
absl::StatusOr<std::string> TokenOf(absl::string_view text, const std::string& path) {
  constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
  absl::ConsumePrefix(&text, kByteOrderMark);
  absl::string_view token;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || absl::StartsWith(line, "#")) continue;
    if (!token.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--token-file: '", path, "' has several lines; the token must be the only line"));
    }
    token = line;
  }
  if (token.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--token-file: '", path, "' has no token"));
  }
  return std::string(token);
}

// Returns the token of the file or, without a file, of the environment. There is no option for the
// token itself, because all users of the machine can read command lines.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  if (!path.empty()) {
    ASSIGN_OR_RETURN(const std::string file, ReadFile("--token-file", path));
    return TokenOf(file, path);
  }
  // No thread changes the environment. NOLINTNEXTLINE(concurrency-mt-unsafe)
  const char* const variable = std::getenv("CHORALE_TOKEN");
  return std::string(absl::StripAsciiWhitespace(variable == nullptr ? "" : variable));
}

// The remedy to propose if no server answers.
std::string WhatToDo(const std::string& server, const absl::Status& status) {
  if (absl::EndsWith(status.message(), "it may require TLS")) {
    return " - use --tls, or --tls-ca FILE if the system does not trust the authority of the "
           "server's certificate";
  }
  if (absl::EndsWith(status.message(), "it may require a client certificate")) {
    return " - set --tls-cert and --tls-key";
  }
  const absl::StatusOr<ServerAddress> address = ParseServerAddress(server);
  const bool here = address.ok() && IsLoopbackAddress(address->address);
  // Nothing listens at the address; other failures are those of a server or of the network.
  const bool nobody = absl::EndsWith(status.message(), "Connection refused") ||
                      absl::EndsWith(status.message(), "No such file or directory");
  if (here && nobody) {
    return " - start a server with 'chorale-server', or set the address with --server or "
           "CHORALE_SERVER";
  }
  return " - set the address with --server or CHORALE_SERVER";
}

}  // namespace

absl::StatusOr<ClientOptions> Environment::MakeClientOptions() const {
  ClientOptions result;
  result.connect_timeout = absl::Seconds(options.connect_timeout_s);
  result.call_timeout = absl::Seconds(options.timeout_s);
  result.retry.max_attempts = options.retries + 1;
  ASSIGN_OR_RETURN(std::string token, ReadToken(options.token_file));
  result.token = std::move(token);
  if (!options.tls && options.tls_ca.empty() && options.tls_cert.empty()) return result;
  TlsOptions tls;
  for (auto [option, path, content] : {
           std::tuple{"--tls-ca", &options.tls_ca, &tls.root_certificates},
           std::tuple{"--tls-cert", &options.tls_cert, &tls.client_certificate},
           std::tuple{"--tls-key", &options.tls_key, &tls.client_key},
       }) {
    ASSIGN_OR_RETURN(std::string file, ReadFile(option, *path));
    *content = std::move(file);
  }
  result.tls = std::move(tls);
  return result;
}

absl::StatusOr<Client*> Environment::Connect() {
  if (client_ != nullptr) return client_.get();
  CatchInterrupts();
  ASSIGN_OR_RETURN(
      std::unique_ptr<Client> client,
      ConnectAnother([this](const absl::Status& why, absl::Duration delay) {
        Note(absl::StrCat(why.message(), " - retrying in ",
                          absl::FormatDuration(absl::Trunc(delay, absl::Milliseconds(1)))));
      }));
  client_ = std::move(client);
  return client_.get();
}

absl::StatusOr<std::unique_ptr<Client>> Environment::ConnectAnother(
    std::function<void(const absl::Status& why, absl::Duration delay)> on_retry) const {
  ASSIGN_OR_RETURN(ClientOptions client_options, MakeClientOptions());
  client_options.retry.on_retry = std::move(on_retry);
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(options.server, client_options, &interrupted);
  if (client.status().code() == absl::StatusCode::kUnavailable) {
    // Not Unavailable, which means "try again": retrying does not start a server.
    return absl::UnknownError(
        absl::StrCat(client.status().message(), WhatToDo(options.server, client.status())));
  }
  return client;
}

CallOptions Environment::call() const {
  return CallOptions{.timeout = absl::Seconds(options.timeout_s), .cancellation = &interrupted};
}

CallOptions Environment::cleanup_call() const {
  // Much shorter than --timeout: there may be many such calls, and the server may be unreachable.
  constexpr absl::Duration kLongest = absl::Seconds(10);
  return CallOptions{.timeout = std::min(kLongest, absl::Seconds(options.timeout_s)),
                     .cancellation = &cleanup_interrupted};
}

void Environment::PrepareCleanup() const { cleans_up = 1; }

Format Environment::format(Readers readers) const {
  if (options.format == "csv") return Format::kCsv;
  if (options.format == "json") return Format::kJson;
  if (options.format == "table") return Format::kTable;
  const bool terminal = options.output.empty() && isatty(STDOUT_FILENO) == 1;
  return readers == Readers::kPeople && terminal ? Format::kTable : Format::kCsv;
}

absl::Status Environment::Write(absl::FunctionRef<void(std::ostream&)> write) const {
  if (!options.output.empty()) return WriteOutputFile(options.output, write);
  if (isatty(STDOUT_FILENO) == 1) {
    PrintableBuffer printable(std::cout.rdbuf());
    std::ostream shown(&printable);
    write(shown);
    shown.flush();
    if (!shown) std::cout.setstate(std::ios::failbit);
  } else {
    write(std::cout);  // unchanged
  }
  std::cout.flush();
  if (!std::cout) return absl::InvalidArgumentError("cannot write to standard output");
  return absl::OkStatus();
}

absl::Status Environment::CheckOutput() const {
  return options.output.empty() ? absl::OkStatus() : CheckOutputFile(options.output);
}

absl::StatusOr<std::string> Environment::WritePartial(
    absl::FunctionRef<void(std::ostream&)> write) const {
  if (options.output.empty()) {
    absl::Status status = Write(write);
    RETURN_IF_ERROR(status);
    return std::string("standard output");
  }
  std::string file = PartialFile(options.output);
  absl::Status status = WriteOutputFile(file, write);
  RETURN_IF_ERROR(status);
  return file;
}

ExitCode Environment::exit_code() const {
  if (result.code() != absl::StatusCode::kCancelled) return ExitCodeFor(result);
  return ExitCodeOfSignal(interrupting_signal);
}

void Environment::Note(absl::string_view text) const {
  if (!options.quiet) std::cerr << "chorale: " << Printable(text) << '\n';
}

Progress::Display Environment::progress() const {
  if (options.quiet) return Progress::Display::kNone;
  return isatty(STDERR_FILENO) == 1 ? Progress::Display::kTerminal : Progress::Display::kLines;
}

}  // namespace chorale::client
