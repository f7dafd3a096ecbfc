#include "client/cpp/status_from_grpc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/cpp/server_errors.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StatusFromGrpcTest, PlainStatus) {
  EXPECT_TRUE(StatusFromGrpc(grpc::Status::OK).ok());
  const absl::Status status =
      StatusFromGrpc(grpc::Status(grpc::StatusCode::NOT_FOUND, "no context 'x'"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no context 'x'");
  EXPECT_EQ(RetryDelay(status), absl::InfiniteDuration());
  EXPECT_THAT(RefusedFields(status), IsEmpty());
}

TEST(StatusFromGrpcTest, NamesTheFieldOnce) {
  const absl::Status status =
      StatusFromGrpc(WithBadField("bad request", "path_count", "at most 9"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "bad request; path_count: at most 9");
  EXPECT_THAT(RefusedFields(status), ElementsAre("path_count"));
  EXPECT_EQ(
      StatusFromGrpc(WithBadField("path_count: at most 9", "path_count", "at most 9")).message(),
      "path_count: at most 9");
}

TEST(StatusFromGrpcTest, TellsWhenToTryAgain) {
  const absl::Status status = StatusFromGrpc(WithRetryInfo(
      grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full", absl::Milliseconds(1500)));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the queue is full; try again in 1.5s");
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(1500));
  const absl::Status odd = StatusFromGrpc(WithRetryInfo(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                                        "full", absl::Nanoseconds(1'196'283'088)));
  EXPECT_EQ(odd.message(), "full; try again in 1.197s") << "to the millisecond";
}

TEST(StatusFromGrpcTest, HasTheReasonOfTheServer) {
  const absl::Status status = StatusFromGrpc(
      WithReason(grpc::StatusCode::NOT_FOUND, "no context", "CONTEXT_NOT_FOUND", "chorale"));
  EXPECT_EQ(ErrorReason(status), "CONTEXT_NOT_FOUND");
  EXPECT_EQ(status.message(), "no context");
  EXPECT_EQ(ErrorReason(StatusFromGrpc(WithReason(grpc::StatusCode::UNAVAILABLE, "no upstream",
                                                  "NO_UPSTREAM", "proxy.example"))),
            "")
      << "of another program";
  EXPECT_EQ(ErrorReason(absl::NotFoundError("no context")), "");
}

TEST(StatusFromGrpcTest, SurvivesStrangeDetails) {
  const absl::Status garbage =
      StatusFromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "x", "\xFF\xFFgarbage"));
  EXPECT_EQ(garbage.message(), "x");
  const absl::Status huge =
      StatusFromGrpc(WithRetryInfo(grpc::StatusCode::UNAVAILABLE, "x", absl::Hours(24 * 365)));
  EXPECT_EQ(RetryDelay(huge), absl::Hours(1));
  const absl::Status negative =
      StatusFromGrpc(WithRetryInfo(grpc::StatusCode::UNAVAILABLE, "x", -absl::Seconds(5)));
  EXPECT_EQ(RetryDelay(negative), absl::ZeroDuration());
}

}  // namespace
}  // namespace chorale::client
