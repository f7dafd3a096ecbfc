#include "tests/client/cpp/server_errors.h"

#include <cstdint>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace chorale::client {
namespace {

grpc::Status WithDetail(grpc::StatusCode code, const std::string& message,
                        const google::protobuf::Message& detail) {
  google::rpc::Status rpc;
  rpc.set_code(code);
  rpc.set_message(message);
  rpc.add_details()->PackFrom(detail);
  return grpc::Status(code, message, rpc.SerializeAsString());
}

}  // namespace

grpc::Status WithRetryInfo(grpc::StatusCode code, const std::string& message,
                           absl::Duration delay) {
  google::rpc::RetryInfo retry;
  const int64_t nanoseconds = absl::ToInt64Nanoseconds(delay);
  retry.mutable_retry_delay()->set_seconds(nanoseconds / 1'000'000'000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
  return WithDetail(code, message, retry);
}

grpc::Status WithReason(grpc::StatusCode code, const std::string& message,
                        const std::string& reason, const std::string& domain) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(domain);
  return WithDetail(code, message, info);
}

grpc::Status WithBadField(const std::string& message, const std::string& field,
                          const std::string& description) {
  google::rpc::BadRequest bad_request;
  auto* violation = bad_request.add_field_violations();
  violation->set_field(field);
  violation->set_description(description);
  return WithDetail(grpc::StatusCode::INVALID_ARGUMENT, message, bad_request);
}

}  // namespace chorale::client
