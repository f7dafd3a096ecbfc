#include "base/error_details.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(ErrorDetailsTest, FieldTravelsWithTheStatus) {
  const absl::Status status = InvalidField("targets.columns", "is empty");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "targets.columns: is empty");
  EXPECT_EQ(ErrorField(status), "targets.columns");
  EXPECT_EQ(RetryDelay(status), absl::ZeroDuration());
}

TEST(ErrorDetailsTest, DelayTravelsWithTheStatus) {
  const absl::Status status = ExhaustedRetryAfter("the queue is full", absl::Milliseconds(1500));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(1500));
  EXPECT_EQ(ErrorField(status), "");
}

TEST(ErrorDetailsTest, OtherStatusesHaveNeither) {
  for (const absl::Status& status : {absl::OkStatus(), absl::InternalError("x: y")}) {
    EXPECT_EQ(ErrorField(status), "");
    EXPECT_EQ(RetryDelay(status), absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace chorale
