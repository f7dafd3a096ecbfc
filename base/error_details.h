// Machine-readable details on an absl::Status, in the engine's own terms. The server turns them
// into google.rpc messages.
#ifndef CHORALE_BASE_ERROR_DETAILS_H_
#define CHORALE_BASE_ERROR_DETAILS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace chorale {

// InvalidArgument: "`field`: `what`", with the field attached for ErrorField. Fields are paths as
// in the proto, e.g. "targets.columns[2].numbers".
absl::Status InvalidField(absl::string_view field, absl::string_view what);

// The field of a status made by InvalidField; else empty.
std::string ErrorField(const absl::Status& status);

// ResourceExhausted with the delay that a client should wait before it tries again.
absl::Status ExhaustedRetryAfter(absl::string_view message, absl::Duration delay);

// The delay of a status made by ExhaustedRetryAfter; else zero.
absl::Duration RetryDelay(const absl::Status& status);

// The same status with a reason that programs can tell apart, in capitals: DISK_FULL.
absl::Status WithReason(absl::Status status, absl::string_view reason);

// The reason of a status made by WithReason; else empty.
std::string ErrorReason(const absl::Status& status);

// ResourceExhausted because a quota of the caller's is used up; `quota` is its name, as in the
// tenants' file. A delay of zero: waiting does not help.
absl::Status QuotaExceeded(absl::string_view quota, absl::string_view message,
                           absl::Duration delay = absl::ZeroDuration());

// Unavailable: the server stops before the call is done.
absl::Status CutShortByShutdown();

// The quota of a status made by QuotaExceeded; else empty.
std::string ExceededQuota(const absl::Status& status);

}  // namespace chorale

#endif  // CHORALE_BASE_ERROR_DETAILS_H_
