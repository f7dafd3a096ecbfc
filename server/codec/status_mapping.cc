#include "server/codec/status_mapping.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

// A peer accepts 8 KiB of trailers by default. The message is in them three times (percent-encoded,
// in the details, and in the field violation), so this leaves a margin.
constexpr size_t kMaxMessageBytes = 512;
constexpr size_t kMaxFieldBytes = 256;

// Of the reasons in ErrorInfo.
constexpr char kErrorDomain[] = "chorale";

// The first `limit` bytes of `text` at most; never splits a UTF-8 sequence.
std::string Cut(absl::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  size_t end = limit - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "...");
}

bool IsInternalError(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

std::string LogInternalError(const absl::Status& status, std::vector<LogField> about_call) {
  absl::BitGen random;
  const std::string reference = absl::StrFormat("%016x", absl::Uniform<uint64_t>(random));
  std::vector<LogField> fields = {{"reference", reference}, {"status", status.ToString()}};
  std::move(about_call.begin(), about_call.end(), std::back_inserter(fields));
  LogEvent(spdlog::level::err, "internal_error", fields);
  return absl::StrCat(
      "internal error; the log of the server contains the details under the reference ", reference);
}

void SetDuration(absl::Duration delay, google::protobuf::Duration* out) {
  absl::Duration rest;
  out->set_seconds(absl::IDivDuration(delay, absl::Seconds(1), &rest));
  out->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status, std::vector<LogField> about_call) {
  if (status.ok()) return grpc::Status::OK;
  // Both enums number the canonical codes alike.
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message = IsInternalError(status.code())
                                  ? LogInternalError(status, std::move(about_call))
                                  : Cut(status.message(), kMaxMessageBytes);
  google::rpc::Status details;
  details.set_code(static_cast<int>(code));
  details.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(ErrorReasonOf(status));
  info.set_domain(kErrorDomain);
  details.add_details()->PackFrom(info);
  if (const std::string field = ErrorField(status); !field.empty()) {
    google::rpc::BadRequest bad_request;
    auto* violation = bad_request.add_field_violations();
    violation->set_field(Cut(field, kMaxFieldBytes));
    violation->set_description(message);
    details.add_details()->PackFrom(bad_request);
  }
  if (const absl::Duration delay = RetryDelay(status); delay > absl::ZeroDuration()) {
    google::rpc::RetryInfo retry;
    SetDuration(delay, retry.mutable_retry_delay());
    details.add_details()->PackFrom(retry);
  }
  return grpc::Status(code, message, details.SerializeAsString());
}

}  // namespace chorale
