// The program's exit codes.
#ifndef CHORALE_CLIENT_CLI_EXIT_CODE_H_
#define CHORALE_CLIENT_CLI_EXIT_CODE_H_

#include "absl/status/status.h"

namespace chorale::client {

// Scripts depend on these numbers; --help lists them.
enum class ExitCode {
  kOk = 0,
  kServerError = 1,  // the server failed, timed out, is unreachable, or denied the call
  kBadInput = 2,     // invalid usage, or an invalid file or value
  kNotFound = 3,
  kAlreadyExists = 4,  // a context with different content, another etag or number of rows
  kTryAgain = 5,       // the server is full or draining, or a quota is used up
  kHungUp = 129,       // SIGHUP; this and the following are the shells' convention
  kInterrupted = 130,  // Ctrl-C
  kTerminated = 143,   // SIGTERM
};

// The exit code of a status. For a cancellation by the user, see ExitCodeOfSignal.
ExitCode ExitCodeFor(const absl::Status& status);

// The exit code of a command that SIGINT, SIGTERM or SIGHUP ended. Async-signal-safe.
ExitCode ExitCodeOfSignal(int signal);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_EXIT_CODE_H_
