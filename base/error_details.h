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

}  // namespace chorale

#endif  // CHORALE_BASE_ERROR_DETAILS_H_
