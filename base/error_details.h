// Machine-readable details of an absl::Status. The server converts them to google.rpc messages.
#ifndef CHORALE_BASE_ERROR_DETAILS_H_
#define CHORALE_BASE_ERROR_DETAILS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace chorale {

// The machine-readable reasons of errors, which the header of proto/chorale/v1/chorale.proto
// specifies. Each belongs to one status code (CodeOf). Reasons that are the names of their status
// codes, such as CANCELLED, are not in this enum: see ErrorReasonOf.
enum class ErrorReason {
  // InvalidArgument
  kInvalidRequest,
  kInvalidField,
  kLimitExceeded,
  // NotFound
  kContextNotFound,
  kModelNotFound,
  // AlreadyExists
  kContextExists,
  // Aborted
  kEtagMismatch,
  kRowCountMismatch,
  // FailedPrecondition
  kModelNotServed,
  kSourceChanged,
  kContextTooLarge,
  kMemorySetUnsupported,
  kAppendUnsupported,
  // ResourceExhausted
  kQueueFull,
  kQueueTimeout,
  kMemoryFull,
  kResponsesUnread,
  kRateLimited,
  kQuotaExceeded,
  kDiskFull,
  kDatasetTooLarge,
  kMessageTooLarge,
  // Unavailable
  kStarting,
  kDraining,
  kDeviceFailed,
  kStoreFailed,
  kStoreLost,
  // DataLoss
  kDatasetDamaged,
  // Unimplemented
  kUnknownMethod,
};
constexpr int kErrorReasonCount = static_cast<int>(ErrorReason::kUnknownMethod) + 1;

// The name of the reason in upper snake case, such as "DISK_FULL".
absl::string_view NameOf(ErrorReason reason);
absl::StatusCode CodeOf(ErrorReason reason);

// Returns an error with the reason and the status code of the reason.
absl::Status MakeError(ErrorReason reason, absl::string_view message);

// The name of the reason of an error. An error without an explicit reason has a reason by its code:
// InvalidArgument INVALID_REQUEST, DataLoss DATASET_DAMAGED, Unimplemented UNKNOWN_METHOD, and any
// other code the name of the code, such as DEADLINE_EXCEEDED. REQUIRES: `status` is not Ok.
std::string ErrorReasonOf(const absl::Status& status);

// Returns InvalidArgument with the message "`field`: `what`". ErrorField returns the field. Fields
// are paths as in the proto, e.g. "rows.columns[2].numbers". The reason is INVALID_FIELD.
absl::Status InvalidField(absl::string_view field, absl::string_view what);

// The same with another reason and its status code.
absl::Status FieldError(ErrorReason reason, absl::string_view field, absl::string_view what);

// The same as InvalidField for a field that exceeds a limit of the server or of the model, with the
// reason LIMIT_EXCEEDED. `what` contains the limit.
absl::Status LimitExceeded(absl::string_view field, absl::string_view what);

// The field of a status from InvalidField, FieldError or LimitExceeded; empty for any other status.
std::string ErrorField(const absl::Status& status);

// Returns an error with the reason, a reason of ResourceExhausted, and the retry delay: the time
// after which the client should retry.
absl::Status ExhaustedRetryAfter(ErrorReason reason, absl::string_view message,
                                 absl::Duration delay);

// The retry delay of a status from ExhaustedRetryAfter; zero for any other status.
absl::Duration RetryDelay(const absl::Status& status);

// Returns ResourceExhausted: the caller has exhausted the quota with this name from the tenants'
// file. The reason is RATE_LIMITED with a delay, and otherwise QUOTA_EXCEEDED: a retry does not
// help.
absl::Status QuotaExceeded(absl::string_view quota, absl::string_view message,
                           absl::Duration delay = absl::ZeroDuration());

// Returns Unavailable with the reason DRAINING: the server stops before the call is complete.
absl::Status CutShortByShutdown();

// The quota of a status from QuotaExceeded; empty for any other status.
std::string ExceededQuota(const absl::Status& status);

}  // namespace chorale

#endif  // CHORALE_BASE_ERROR_DETAILS_H_
