#include "base/error_details.h"

#include <cstdint>
#include <iterator>
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

struct ReasonEntry {
  absl::string_view name;
  absl::StatusCode code;
};

// By ErrorReason.
constexpr ReasonEntry kReasons[] = {
    {"INVALID_REQUEST", absl::StatusCode::kInvalidArgument},
    {"INVALID_FIELD", absl::StatusCode::kInvalidArgument},
    {"LIMIT_EXCEEDED", absl::StatusCode::kInvalidArgument},
    {"CONTEXT_NOT_FOUND", absl::StatusCode::kNotFound},
    {"MODEL_NOT_FOUND", absl::StatusCode::kNotFound},
    {"CONTEXT_EXISTS", absl::StatusCode::kAlreadyExists},
    {"ETAG_MISMATCH", absl::StatusCode::kAborted},
    {"ROW_COUNT_MISMATCH", absl::StatusCode::kAborted},
    {"MODEL_NOT_SERVED", absl::StatusCode::kFailedPrecondition},
    {"SOURCE_CHANGED", absl::StatusCode::kFailedPrecondition},
    {"CONTEXT_TOO_LARGE", absl::StatusCode::kFailedPrecondition},
    {"MEMORY_SET_UNSUPPORTED", absl::StatusCode::kFailedPrecondition},
    {"APPEND_UNSUPPORTED", absl::StatusCode::kFailedPrecondition},
    {"QUEUE_FULL", absl::StatusCode::kResourceExhausted},
    {"QUEUE_TIMEOUT", absl::StatusCode::kResourceExhausted},
    {"MEMORY_FULL", absl::StatusCode::kResourceExhausted},
    {"RESPONSES_UNREAD", absl::StatusCode::kResourceExhausted},
    {"RATE_LIMITED", absl::StatusCode::kResourceExhausted},
    {"QUOTA_EXCEEDED", absl::StatusCode::kResourceExhausted},
    {"DISK_FULL", absl::StatusCode::kResourceExhausted},
    {"DATASET_TOO_LARGE", absl::StatusCode::kResourceExhausted},
    {"MESSAGE_TOO_LARGE", absl::StatusCode::kResourceExhausted},
    {"STARTING", absl::StatusCode::kUnavailable},
    {"DRAINING", absl::StatusCode::kUnavailable},
    {"DEVICE_FAILED", absl::StatusCode::kUnavailable},
    {"STORE_FAILED", absl::StatusCode::kUnavailable},
    {"STORE_LOST", absl::StatusCode::kUnavailable},
    {"DATASET_DAMAGED", absl::StatusCode::kDataLoss},
    {"UNKNOWN_METHOD", absl::StatusCode::kUnimplemented},
};
static_assert(std::size(kReasons) == kErrorReasonCount);

const ReasonEntry& EntryOf(ErrorReason reason) { return kReasons[static_cast<size_t>(reason)]; }

std::string TextOfPayload(const absl::Status& status, absl::string_view type) {
  const absl::optional<absl::Cord> payload = status.GetPayload(type);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace

absl::string_view NameOf(ErrorReason reason) { return EntryOf(reason).name; }

absl::StatusCode CodeOf(ErrorReason reason) { return EntryOf(reason).code; }

absl::Status MakeError(ErrorReason reason, absl::string_view message) {
  absl::Status status(CodeOf(reason), message);
  status.SetPayload(kReasonPayload, absl::Cord(NameOf(reason)));
  return status;
}

std::string ErrorReasonOf(const absl::Status& status) {
  std::string reason = TextOfPayload(status, kReasonPayload);
  if (!reason.empty()) return reason;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return std::string(NameOf(ErrorReason::kInvalidRequest));
    case absl::StatusCode::kDataLoss:
      return std::string(NameOf(ErrorReason::kDatasetDamaged));
    case absl::StatusCode::kUnimplemented:
      return std::string(NameOf(ErrorReason::kUnknownMethod));
    default:
      return absl::StatusCodeToString(status.code());
  }
}

absl::Status FieldError(ErrorReason reason, absl::string_view field, absl::string_view what) {
  absl::Status status = MakeError(reason, absl::StrCat(field, ": ", what));
  status.SetPayload(kFieldPayload, absl::Cord(field));
  return status;
}

absl::Status InvalidField(absl::string_view field, absl::string_view what) {
  return FieldError(ErrorReason::kInvalidField, field, what);
}

absl::Status LimitExceeded(absl::string_view field, absl::string_view what) {
  return FieldError(ErrorReason::kLimitExceeded, field, what);
}

std::string ErrorField(const absl::Status& status) { return TextOfPayload(status, kFieldPayload); }

absl::Status ExhaustedRetryAfter(ErrorReason reason, absl::string_view message,
                                 absl::Duration delay) {
  absl::Status status = MakeError(reason, message);
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

absl::Status QuotaExceeded(absl::string_view quota, absl::string_view message,
                           absl::Duration delay) {
  absl::Status status = delay > absl::ZeroDuration()
                            ? ExhaustedRetryAfter(ErrorReason::kRateLimited, message, delay)
                            : MakeError(ErrorReason::kQuotaExceeded, message);
  status.SetPayload(kQuotaPayload, absl::Cord(quota));
  return status;
}

absl::Status CutShortByShutdown() {
  return MakeError(
      ErrorReason::kDraining,
      "the server shut down before the call was complete; retry on another server, or later");
}

std::string ExceededQuota(const absl::Status& status) {
  return TextOfPayload(status, kQuotaPayload);
}

}  // namespace chorale
