#include "client/cpp/status_from_grpc.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace chorale::client {
namespace {

constexpr char kRetryPayload[] = "chorale.client/retry_delay_ns";
constexpr char kReasonPayload[] = "chorale.client/reason";
constexpr char kFieldsPayload[] = "chorale.client/refused_fields";
constexpr char kUnknownOutcomePayload[] = "chorale.client/unknown_outcome";

// Of the reasons of a Chorale server. A proxy may add reasons of its own.
constexpr char kDomain[] = "chorale";

// Longer delays are limited to an hour, because a server may send any value.
constexpr int64_t kMaxRetrySeconds = 3600;

struct Details {
  std::vector<google::rpc::BadRequest::FieldViolation> violations;
  absl::Duration retry_delay = absl::InfiniteDuration();
  std::string reason;
};

Details DecodeDetails(const grpc::Status& status) {
  Details details;
  google::rpc::Status rpc;
  if (status.error_details().empty() || !rpc.ParseFromString(status.error_details())) {
    return details;
  }
  for (const google::protobuf::Any& any : rpc.details()) {
    google::rpc::BadRequest bad_request;
    google::rpc::RetryInfo retry;
    google::rpc::ErrorInfo info;
    if (any.UnpackTo(&bad_request)) {
      for (const auto& violation : bad_request.field_violations()) {
        details.violations.push_back(violation);
      }
    } else if (any.UnpackTo(&retry)) {
      const auto& delay = retry.retry_delay();
      const absl::Duration asked =
          absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
      details.retry_delay =
          std::min(std::max(asked, absl::ZeroDuration()), absl::Seconds(kMaxRetrySeconds));
    } else if (any.UnpackTo(&info) && info.domain() == kDomain) {
      details.reason = info.reason();
    }
  }
  return details;
}

std::string Message(const grpc::Status& status, const Details& details) {
  std::string message = status.error_message();
  for (const auto& violation : details.violations) {
    // Do not repeat a violation that is in the message already.
    const bool said = absl::StrContains(message, violation.field()) &&
                      absl::StrContains(message, violation.description());
    if (said) continue;
    absl::StrAppend(&message, message.empty() ? "" : "; ", violation.field(), ": ",
                    violation.description());
  }
  if (details.retry_delay != absl::InfiniteDuration()) {
    absl::StrAppend(&message, message.empty() ? "" : "; ", "try again in ",
                    absl::FormatDuration(absl::Ceil(details.retry_delay, absl::Milliseconds(1))));
  }
  return message;
}

}  // namespace

absl::Status StatusFromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const Details details = DecodeDetails(status);
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), Message(status, details));
  if (details.retry_delay != absl::InfiniteDuration()) {
    result.SetPayload(kRetryPayload,
                      absl::Cord(absl::StrCat(absl::ToInt64Nanoseconds(details.retry_delay))));
  }
  if (!details.reason.empty()) result.SetPayload(kReasonPayload, absl::Cord(details.reason));
  if (!details.violations.empty()) {
    result.SetPayload(kFieldsPayload,
                      absl::Cord(absl::StrJoin(details.violations, "\n",
                                               [](std::string* out, const auto& violation) {
                                                 out->append(violation.field());
                                               })));
  }
  return result;
}

absl::Duration RetryDelay(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryPayload);
  int64_t nanoseconds = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &nanoseconds)) {
    return absl::InfiniteDuration();
  }
  return absl::Nanoseconds(nanoseconds);
}

std::string ErrorReason(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kReasonPayload);
  return payload.has_value() ? std::string(*payload) : std::string();
}

bool OutcomeUnknown(const absl::Status& status) {
  return status.GetPayload(kUnknownOutcomePayload).has_value();
}

absl::Status WithUnknownOutcome(absl::Status status) {
  status.SetPayload(kUnknownOutcomePayload, absl::Cord());
  return status;
}

bool LeavesOutcomeOpen(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return true;
    case absl::StatusCode::kUnavailable: {
      const std::string reason = ErrorReason(status);
      return reason != "STARTING" && reason != "DRAINING";  // with these, the server rejects calls
    }
    default:
      return false;
  }
}

std::vector<std::string> RefusedFields(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kFieldsPayload);
  if (!payload.has_value()) return {};
  return absl::StrSplit(std::string(*payload), '\n');
}

}  // namespace chorale::client
