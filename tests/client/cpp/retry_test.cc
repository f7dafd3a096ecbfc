#include "client/cpp/retry.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "client/cpp/status_from_grpc.h"
#include "tests/client/cpp/server_errors.h"
#include "tests/support/eventually.h"

namespace chorale::client {
namespace {

const absl::Status kBusy = absl::UnavailableError("busy");
const absl::Status kFull = StatusFromGrpc(
    WithRetryInfo(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", absl::Milliseconds(1)));

TEST(DelayAfterTest, BacksOffUpToTheMaximum) {
  const RetryPolicy policy{.first_delay = absl::Milliseconds(100), .max_delay = absl::Seconds(1)};
  EXPECT_EQ(DelayAfter(1, kBusy, policy, 0.0), absl::Milliseconds(100));
  EXPECT_EQ(DelayAfter(2, kBusy, policy, 0.0), absl::Milliseconds(200));
  EXPECT_EQ(DelayAfter(4, kBusy, policy, 0.0), absl::Milliseconds(800));
  EXPECT_EQ(DelayAfter(5, kBusy, policy, 0.0), absl::Seconds(1));
  EXPECT_EQ(DelayAfter(5000, kBusy, policy, 0.0), absl::Seconds(1));
  EXPECT_EQ(DelayAfter(1, kBusy, policy, 0.5), absl::Milliseconds(112.5));
}

TEST(DelayAfterTest, NeverLessThanTheServerAsks) {
  const absl::Status status = StatusFromGrpc(
      WithRetryInfo(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", absl::Seconds(30)));
  const RetryPolicy policy{.max_delay = absl::Seconds(1)};
  EXPECT_EQ(DelayAfter(1, status, policy, 0.0), absl::Seconds(30));
  EXPECT_GT(DelayAfter(1, status, policy, 0.9), absl::Seconds(30));
}

struct Counted {
  int attempts = 0;
  absl::Status status;
};

Counted RunWith(const RetryPolicy& policy, const std::vector<absl::Status>& answers,
                absl::Duration timeout = absl::Seconds(10)) {
  Counted counted;
  counted.status = WithRetry(policy, Clock::Real()->Now() + timeout, nullptr,
                             [&] { return answers[counted.attempts++]; });
  return counted;
}

TEST(WithRetryTest, TriesAgainOnlyWhereItCanHelp) {
  const RetryPolicy policy{.max_attempts = 3, .first_delay = absl::Milliseconds(1)};
  EXPECT_EQ(RunWith(policy, {absl::OkStatus()}).attempts, 1);
  EXPECT_EQ(RunWith(policy, {kBusy, kFull, absl::OkStatus()}).attempts, 3);
  // Without a delay it is gRPC's error for a message that is too large: retrying does not help.
  EXPECT_EQ(RunWith(policy, {absl::ResourceExhaustedError("larger than max")}).attempts, 1);
  EXPECT_EQ(RunWith(policy, {absl::InvalidArgumentError("")}).attempts, 1);
  EXPECT_EQ(RunWith(policy, {kBusy, absl::NotFoundError("")}).attempts, 2);
  const Counted used_up = RunWith(policy, {kBusy, kBusy, kBusy, absl::OkStatus()});
  EXPECT_EQ(used_up.attempts, 3);
  EXPECT_EQ(used_up.status, kBusy);
}

TEST(WithRetryTest, DoesNotWaitPastTheDeadline) {
  const RetryPolicy policy{.first_delay = 2 * kPatience, .max_delay = 2 * kPatience};
  const absl::Time start = absl::Now();
  const Counted counted = RunWith(policy, {kBusy, absl::OkStatus()}, kPatience);
  EXPECT_EQ(counted.status, kBusy);
  EXPECT_LT(absl::Now() - start, kPatience);
}

TEST(WithRetryTest, CancellationEndsTheWait) {
  Cancellation cancellation;
  std::thread canceller([&] {
    absl::SleepFor(absl::Milliseconds(30));
    cancellation.Cancel();
  });
  const RetryPolicy policy{.first_delay = 2 * kPatience, .max_delay = 2 * kPatience};
  const absl::Time start = absl::Now();
  const absl::Status status =
      WithRetry(policy, absl::InfiniteFuture(), &cancellation, [] { return kBusy; });
  canceller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_LT(absl::Now() - start, kPatience);
}

}  // namespace
}  // namespace chorale::client
