#include "base/error_details.h"

#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace chorale {
namespace {

constexpr absl::string_view kFieldPayload = "chorale/field";
// An integer number of nanoseconds, in decimal.
constexpr absl::string_view kRetryPayload = "chorale/retry-delay-ns";
constexpr absl::string_view kReasonPayload = "chorale/reason";
constexpr absl::string_view kQuotaPayload = "chorale/quota";

std::string TextOfPayload(const absl::Status& status, absl::string_view type) {
  const absl::optional<absl::Cord> payload = status.GetPayload(type);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace

absl::Status InvalidField(absl::string_view field, absl::string_view what) {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
  status.SetPayload(kFieldPayload, absl::Cord(field));
  return status;
}

std::string ErrorField(const absl::Status& status) { return TextOfPayload(status, kFieldPayload); }

absl::Status ExhaustedRetryAfter(absl::string_view message, absl::Duration delay) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kRetryPayload, absl::Cord(absl::StrCat(absl::ToInt64Nanoseconds(delay))));
  return status;
}

absl::Duration RetryDelay(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryPayload);
  int64_t nanoseconds = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &nanoseconds)) {
    return absl::ZeroDuration();
  }
  return absl::Nanoseconds(nanoseconds);
}

absl::Status WithReason(absl::Status status, absl::string_view reason) {
  status.SetPayload(kReasonPayload, absl::Cord(reason));
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  return TextOfPayload(status, kReasonPayload);
}

absl::Status QuotaExceeded(absl::string_view quota, absl::string_view message,
                           absl::Duration delay) {
  absl::Status status = delay > absl::ZeroDuration() ? ExhaustedRetryAfter(message, delay)
                                                     : absl::ResourceExhaustedError(message);
  status.SetPayload(kQuotaPayload, absl::Cord(quota));
  return status;
}

absl::Status CutShortByShutdown() {
  return absl::UnavailableError(
      "the server shut down before the call was complete; retry on another server, or later");
}

std::string ExceededQuota(const absl::Status& status) {
  return TextOfPayload(status, kQuotaPayload);
}

}  // namespace chorale
