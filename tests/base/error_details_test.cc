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
  const absl::Status status = ExhaustedRetryAfter("the queue is full", absl::Milliseconds(1500));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(1500));
  EXPECT_EQ(ErrorField(status), "");
}

TEST(ErrorDetailsTest, AReasonTravelsBesideADelay) {
  const absl::Status status =
      WithReason(ExhaustedRetryAfter("no room", absl::Seconds(3)), "DISK_FULL");
  EXPECT_EQ(ErrorReason(status), "DISK_FULL");
  EXPECT_EQ(RetryDelay(status), absl::Seconds(3));
  EXPECT_EQ(status.message(), "no room");
}

TEST(ErrorDetailsTest, OtherStatusesHaveNeither) {
  for (const absl::Status& status : {absl::OkStatus(), absl::InternalError("x: y")}) {
    EXPECT_EQ(ErrorField(status), "");
    EXPECT_EQ(RetryDelay(status), absl::ZeroDuration());
    EXPECT_EQ(ErrorReason(status), "");
  }
}

TEST(ErrorDetailsTest, AQuotaIsNamedWithOrWithoutADelay) {
  const absl::Status never = QuotaExceeded("max_contexts", "too many");
  EXPECT_EQ(never.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ExceededQuota(never), "max_contexts");
  EXPECT_EQ(RetryDelay(never), absl::ZeroDuration());
  const absl::Status later = QuotaExceeded("max_calls", "too many", absl::Seconds(2));
  EXPECT_EQ(ExceededQuota(later), "max_calls");
  EXPECT_EQ(RetryDelay(later), absl::Seconds(2));
  EXPECT_EQ(ExceededQuota(absl::ResourceExhaustedError("full")), "");
}

}  // namespace
}  // namespace chorale
