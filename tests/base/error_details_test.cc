#include "base/error_details.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(ErrorDetailsTest, FieldTravelsWithTheStatus) {
  const absl::Status status = InvalidField("rows.columns", "is empty");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "rows.columns: is empty");
  EXPECT_EQ(ErrorField(status), "rows.columns");
  EXPECT_EQ(RetryDelay(status), absl::ZeroDuration());
}

TEST(ErrorDetailsTest, DelayTravelsWithTheStatus) {
  const absl::Status status =
      ExhaustedRetryAfter(ErrorReason::kQueueFull, "the queue is full", absl::Milliseconds(1500));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(1500));
  EXPECT_EQ(ErrorField(status), "");
}

TEST(ErrorDetailsTest, AReasonTravelsBesideADelay) {
  const absl::Status status =
      ExhaustedRetryAfter(ErrorReason::kDiskFull, "no room", absl::Seconds(3));
  EXPECT_EQ(ErrorReasonOf(status), "DISK_FULL");
  EXPECT_EQ(RetryDelay(status), absl::Seconds(3));
  EXPECT_EQ(status.message(), "no room");
}

TEST(ErrorDetailsTest, AnErrorHasTheCodeOfItsReason) {
  for (int i = 0; i < kErrorReasonCount; ++i) {
    const auto reason = static_cast<ErrorReason>(i);
    const absl::Status status = MakeError(reason, "no");
    EXPECT_EQ(status.code(), CodeOf(reason));
    EXPECT_EQ(ErrorReasonOf(status), NameOf(reason));
    EXPECT_EQ(status.message(), "no");
  }
  EXPECT_EQ(CodeOf(ErrorReason::kUnknownMethod), absl::StatusCode::kUnimplemented);
}

TEST(ErrorDetailsTest, AFieldOverALimitHasAReasonOfItsOwn) {
  EXPECT_EQ(ErrorReasonOf(InvalidField("path_count", "is -1")), "INVALID_FIELD");
  const absl::Status status = LimitExceeded("path_count", "is 20; the limit is 10");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "path_count: is 20; the limit is 10");
  EXPECT_EQ(ErrorField(status), "path_count");
  EXPECT_EQ(ErrorReasonOf(status), "LIMIT_EXCEEDED");
}

TEST(ErrorDetailsTest, AFieldCanHaveTheErrorOfAnyReason) {
  const absl::Status status =
      FieldError(ErrorReason::kMemorySetUnsupported, "spec.memory_row_count", "is 64");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "spec.memory_row_count: is 64");
  EXPECT_EQ(ErrorField(status), "spec.memory_row_count");
  EXPECT_EQ(ErrorReasonOf(status), "MEMORY_SET_UNSUPPORTED");
}

TEST(ErrorDetailsTest, AnErrorWithoutAReasonHasTheReasonOfItsCode) {
  EXPECT_EQ(ErrorReasonOf(absl::CancelledError("x")), "CANCELLED");
  EXPECT_EQ(ErrorReasonOf(absl::InternalError("x")), "INTERNAL");
  EXPECT_EQ(ErrorReasonOf(absl::DeadlineExceededError("x")), "DEADLINE_EXCEEDED");
  EXPECT_EQ(ErrorReasonOf(absl::InvalidArgumentError("x")), "INVALID_REQUEST");
  EXPECT_EQ(ErrorReasonOf(absl::DataLossError("x")), "DATASET_DAMAGED");
}

TEST(ErrorDetailsTest, OtherStatusesHaveNeither) {
  for (const absl::Status& status : {absl::OkStatus(), absl::InternalError("x: y")}) {
    EXPECT_EQ(ErrorField(status), "");
    EXPECT_EQ(RetryDelay(status), absl::ZeroDuration());
  }
}

TEST(ErrorDetailsTest, AQuotaIsNamedWithOrWithoutADelay) {
  const absl::Status never = QuotaExceeded("max_contexts", "too many");
  EXPECT_EQ(never.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ExceededQuota(never), "max_contexts");
  EXPECT_EQ(RetryDelay(never), absl::ZeroDuration());
  EXPECT_EQ(ErrorReasonOf(never), "QUOTA_EXCEEDED");
  const absl::Status later = QuotaExceeded("max_calls", "too many", absl::Seconds(2));
  EXPECT_EQ(ExceededQuota(later), "max_calls");
  EXPECT_EQ(RetryDelay(later), absl::Seconds(2));
  EXPECT_EQ(ErrorReasonOf(later), "RATE_LIMITED");
  EXPECT_EQ(ExceededQuota(absl::ResourceExhaustedError("full")), "");
}

}  // namespace
}  // namespace chorale
