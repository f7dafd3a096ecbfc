// Machine-readable details of an absl::Status. The server converts them to google.rpc messages.
#ifndef CHORALE_BASE_ERROR_DETAILS_H_
#define CHORALE_BASE_ERROR_DETAILS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace chorale {

// Returns InvalidArgument with the message "`field`: `what`". ErrorField returns the field. Fields
// are paths as in the proto, e.g. "rows.columns[2].numbers".
absl::Status InvalidField(absl::string_view field, absl::string_view what);

// The field of a status from InvalidField; empty for any other status.
std::string ErrorField(const absl::Status& status);

// Returns ResourceExhausted with the retry delay: the time after which the client should retry.
absl::Status ExhaustedRetryAfter(absl::string_view message, absl::Duration delay);

// The retry delay of a status from ExhaustedRetryAfter; zero for any other status.
absl::Duration RetryDelay(const absl::Status& status);

// Returns `status` with a machine-readable reason in capitals, e.g. DISK_FULL.
absl::Status WithReason(absl::Status status, absl::string_view reason);

// The reason of a status from WithReason; empty for any other status.
std::string ErrorReason(const absl::Status& status);

// Returns ResourceExhausted: the caller has exhausted the quota with this name from the tenants'
// file. A delay of zero means that a retry does not help.
absl::Status QuotaExceeded(absl::string_view quota, absl::string_view message,
                           absl::Duration delay = absl::ZeroDuration());

// Returns Unavailable: the server stops before the call is complete.
absl::Status CutShortByShutdown();

// The quota of a status from QuotaExceeded; empty for any other status.
std::string ExceededQuota(const absl::Status& status);

}  // namespace chorale

#endif  // CHORALE_BASE_ERROR_DETAILS_H_
