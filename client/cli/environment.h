// Used by every command: the shared options, the client, and the output.
#ifndef CHORALE_CLIENT_CLI_ENVIRONMENT_H_
#define CHORALE_CLIENT_CLI_ENVIRONMENT_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/exit_code.h"
#include "client/cli/progress.h"
#include "client/cli/report.h"
#include "client/cpp/client.h"

namespace chorale::client {

struct SharedOptions {
  std::string server = "127.0.0.1:50051";
  std::string format;  // "csv", "json", "table"; empty: depends on command and terminal
  std::string output;  // a file; empty: standard output
  double timeout_s = 300.0;
  double connect_timeout_s = 2.0;
  int retries = 3;
  bool quiet = false;
  bool tls = false;
  std::string tls_ca;  // files, PEM
  std::string tls_cert;
  std::string tls_key;
  std::string token_file;
};

// Used by the main thread only; signal handlers only set a Cancellation.
class Environment {
 public:
  SharedOptions options;
  absl::Status result;             // of the command that ran
  std::vector<std::string> words;  // of the command line, the program first

  // Returns the client, connected on first use. From then on Ctrl-C, SIGTERM and SIGHUP cancel the
  // call in flight, and the second of them ends the program.
  absl::StatusOr<Client*> Connect();
  // Returns a separate client with its own connections, which calls `on_retry` before each retry.
  absl::StatusOr<std::unique_ptr<Client>> ConnectAnother(
      std::function<void(const absl::Status& why, absl::Duration delay)> on_retry) const;
  CallOptions call() const;
  // The options of a call that cleans up after the command. The first Ctrl-C does not cancel such a
  // call. After PrepareCleanup, the second Ctrl-C cancels it, and the third ends the program.
  CallOptions cleanup_call() const;
  // Call before the command does anything that requires a cleanup.
  void PrepareCleanup() const;
  // The exit code of the command: the shells' number for a signal, otherwise that of `result`.
  ExitCode exit_code() const;

  // The format in the options; by default a table for kPeople on a terminal, otherwise CSV.
  enum class Readers { kPrograms, kPeople };
  Format format(Readers readers) const;

  // Calls `write` with standard output or the output file; the file appears only on success.
  absl::Status Write(absl::FunctionRef<void(std::ostream&)> write) const;

  // Returns the errors of Write that can be detected in advance.
  absl::Status CheckOutput() const;

  // Writes a part of the results after a failure, like Write, but to a file with the suffix
  // ".partial". Returns the name of the destination.
  absl::StatusOr<std::string> WritePartial(absl::FunctionRef<void(std::ostream&)> write) const;

  // Writes a line to standard error, unless quiet.
  void Note(absl::string_view text) const;
  Progress::Display progress() const;

 private:
  absl::StatusOr<ClientOptions> MakeClientOptions() const;

  std::unique_ptr<Client> client_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_ENVIRONMENT_H_
