// What every command uses: the shared options, the client, and the output.
#ifndef CHORALE_CLIENT_CLI_ENVIRONMENT_H_
#define CHORALE_CLIENT_CLI_ENVIRONMENT_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>

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
  absl::Status result;  // of the command that ran

  // Returns the client, connected on first use. From then on Ctrl-C, SIGTERM and SIGHUP cancel the
  // call in flight, and the second of them ends the program.
  absl::StatusOr<Client*> Connect();
  // Another client, with connections of its own. `on_retry` is called instead of noting a retry.
  absl::StatusOr<std::unique_ptr<Client>> ConnectAnother(
      std::function<void(const absl::Status& why, absl::Duration delay)> on_retry) const;
  CallOptions call() const;
  // Of a call that undoes what the command did. Ctrl-C does not cancel it; from the first use of
  // PrepareCleanup on, the second Ctrl-C does, and the third ends the program.
  CallOptions cleanup_call() const;
  // To be called before the command does what it has to undo.
  void PrepareCleanup() const;
  // Of the command that ran: the shells' number if a signal ended it, else that of `result`.
  ExitCode exit_code() const;

  // The format in the options; by default a table for kPeople on a terminal, else CSV.
  enum class Readers { kPrograms, kPeople };
  Format format(Readers readers) const;

  // Calls `write` with standard output or the output file; the file appears only on success.
  absl::Status Write(absl::FunctionRef<void(std::ostream&)> write) const;

  // Write's error as far as it can be known before there is anything to write.
  absl::Status CheckOutput() const;

  // The same as Write for a part of the results, where the rest failed: the file is then that with
  // ".partial" at its end. Returns where the part is.
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
