#include "server/codec/status_mapping.h"

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "tests/support/error_reasons.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

TEST(StatusMappingTest, OkIsOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).error_details().empty());
}

TEST(StatusMappingTest, CodesKeepTheirMeaning) {
  const std::pair<absl::StatusCode, grpc::StatusCode> codes[] = {
      {absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED},
      {absl::StatusCode::kUnknown, grpc::StatusCode::UNKNOWN},
      {absl::StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
      {absl::StatusCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED},
      {absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND},
      {absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
      {absl::StatusCode::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED},
      {absl::StatusCode::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED},
      {absl::StatusCode::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION},
      {absl::StatusCode::kAborted, grpc::StatusCode::ABORTED},
      {absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE},
      {absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED},
      {absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL},
      {absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE},
      {absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS},
      {absl::StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED},
  };
  for (const auto& [from, to] : codes) {
    EXPECT_EQ(ToGrpcStatus(absl::Status(from, "x")).error_code(), to);
  }
}

TEST(StatusMappingTest, AFieldBecomesABadRequest) {
  const grpc::Status status = ToGrpcStatus(InvalidField("rows.columns[2].name", "is empty"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "rows.columns[2].name: is empty");
  const google::rpc::Status details = Details(status);
  EXPECT_EQ(details.code(), 3);
  EXPECT_EQ(details.message(), status.error_message());
  ASSERT_EQ(details.details_size(), 2);
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(details.details(1).UnpackTo(&bad_request));
  ASSERT_EQ(bad_request.field_violations_size(), 1);
  EXPECT_EQ(bad_request.field_violations(0).field(), "rows.columns[2].name");
  EXPECT_THAT(bad_request.field_violations(0).description(), HasSubstr("is empty"));
}

TEST(StatusMappingTest, ADelayBecomesARetryInfo) {
  const grpc::Status status = ToGrpcStatus(
      ExhaustedRetryAfter(ErrorReason::kQueueFull, "queue full", absl::Milliseconds(2500)));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "queue full");
  const google::rpc::Status details = Details(status);
  ASSERT_EQ(details.details_size(), 2);
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(details.details(1).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 2);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
}

TEST(StatusMappingTest, EveryErrorHasAReason) {
  const std::pair<absl::Status, const char*> errors[] = {
      {MakeError(ErrorReason::kDiskFull, "no room"), "DISK_FULL"},
      {InvalidField("rows", "is empty"), "INVALID_FIELD"},
      {absl::PermissionDeniedError("no"), "PERMISSION_DENIED"},
      {absl::InternalError("no"), "INTERNAL"},
      {absl::DataLossError("no"), "DATASET_DAMAGED"}};
  for (const auto& [error, reason] : errors) {
    const google::rpc::Status details = Details(ToGrpcStatus(error));
    EXPECT_EQ(details.code(), static_cast<int>(error.code()));
    ASSERT_GE(details.details_size(), 1);
    google::rpc::ErrorInfo info;
    ASSERT_TRUE(details.details(0).UnpackTo(&info));
    EXPECT_EQ(info.reason(), reason);
    EXPECT_EQ(info.domain(), "chorale");
  }
}

TEST(StatusMappingTest, TheProtoListsEveryReason) {
  std::map<std::string, std::string> listed = DocumentedReasons();
  for (int i = 0; i < kErrorReasonCount; ++i) {
    const auto reason = static_cast<ErrorReason>(i);
    const auto entry = listed.find(std::string(NameOf(reason)));
    ASSERT_NE(entry, listed.end()) << NameOf(reason);
    EXPECT_EQ(entry->second, absl::StatusCodeToString(CodeOf(reason))) << NameOf(reason);
    listed.erase(entry);
  }
  for (const auto& [reason, code] : listed) {
    EXPECT_TRUE(reason == code || reason == "ETAG_MISMATCH") << reason << " does not exist";
  }
}

TEST(StatusMappingTest, AMessageThatIsTooLargeHasNoRetryDelay) {
  const google::rpc::Status details =
      Details(ToGrpcStatus(MakeError(ErrorReason::kMessageTooLarge, "too large")));
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_TRUE(details.details(0).Is<google::rpc::ErrorInfo>());
}

TEST(StatusMappingTest, TheInsideStaysInside) {
  for (const absl::Status& status :
       {absl::InternalError("/var/lib/chorale/contexts.db: I/O error at 0x7ffe"),
        absl::UnknownError("/var/lib/chorale"), absl::DataLossError("/var/lib/chorale")}) {
    const grpc::Status mapped = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(mapped.error_code()), static_cast<int>(status.code()));
    EXPECT_THAT(mapped.error_message(), Not(HasSubstr("var")));
    EXPECT_THAT(mapped.error_message(), Not(HasSubstr("0x")));
    EXPECT_THAT(mapped.error_message(), HasSubstr("reference "));
    EXPECT_THAT(mapped.error_details(), Not(HasSubstr("var")));
    EXPECT_EQ(Details(mapped).message(), mapped.error_message());
  }
}

TEST(StatusMappingTest, LongMessagesAreCutBetweenCharacters) {
  // Three bytes each, so that a cut at a fixed offset would split some character.
  for (int shift = 0; shift < 3; ++shift) {
    std::string text(shift, 'x');
    for (int i = 0; i < 1000; ++i) text += "€";
    const grpc::Status status = ToGrpcStatus(InvalidField(text, text));
    EXPECT_LE(status.error_message().size(), 512);
    EXPECT_TRUE(absl::EndsWith(status.error_message(), "..."));
    const std::string kept = status.error_message().substr(0, status.error_message().size() - 3);
    EXPECT_EQ((kept.size() - shift) % 3, 0) << "cut within a character";
    // Everything has to fit into the trailers that a client accepts by default.
    EXPECT_LT(3 * status.error_message().size() + 4 * status.error_details().size() / 3, 6000);
    EXPECT_EQ(Details(status).details_size(), 2);
  }
}

}  // namespace
}  // namespace chorale
