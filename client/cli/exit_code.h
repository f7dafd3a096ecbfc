// The program's exit codes.
#ifndef CHORALE_CLIENT_CLI_EXIT_CODE_H_
#define CHORALE_CLIENT_CLI_EXIT_CODE_H_

#include "absl/status/status.h"

namespace chorale::client {

// Scripts depend on these numbers; --help lists them.
enum class ExitCode {
  kOk = 0,
  kServerError = 1,  // the server failed, did not answer, cannot be reached, or refuses the caller
  kBadInput = 2,     // wrong usage, or a file or value that cannot be used
  kNotFound = 3,
  kAlreadyExists = 4,
  kTryAgain = 5,       // the server is full or draining, or a quota is used up
  kHungUp = 129,       // SIGHUP; the shells' convention, as the next ones
  kInterrupted = 130,  // Ctrl-C
  kTerminated = 143,   // SIGTERM
};

// Of a status that is not the user's own cancellation, which ExitCodeOfSignal tells.
ExitCode ExitCodeFor(const absl::Status& status);

// Of a command that SIGINT, SIGTERM or SIGHUP ended. Async-signal-safe.
ExitCode ExitCodeOfSignal(int signal);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_EXIT_CODE_H_
