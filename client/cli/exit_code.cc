#include "client/cli/exit_code.h"

#include <signal.h>

#include "client/cpp/retry.h"
#include "client/cpp/status_from_grpc.h"

namespace chorale::client {

ExitCode ExitCodeFor(const absl::Status& status) {
  if (ErrorReason(status) == "SOURCE_CHANGED") return ExitCode::kAlreadyExists;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return ExitCode::kBadInput;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:  // another etag or row count
      return ExitCode::kAlreadyExists;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return IsTransient(status) ? ExitCode::kTryAgain : ExitCode::kServerError;
    case absl::StatusCode::kCancelled:
      return ExitCode::kTryAgain;
    default:
      return ExitCode::kServerError;
  }
}

ExitCode ExitCodeOfSignal(int signal) {
  if (signal == SIGHUP) return ExitCode::kHungUp;
  return signal == SIGTERM ? ExitCode::kTerminated : ExitCode::kInterrupted;
}

}  // namespace chorale::client
