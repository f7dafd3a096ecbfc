#include "server/security/quotas.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

Caller Of(const std::string& tenant, const TenantQuotas& quotas) {
  Caller caller;
  caller.tenant = tenant;
  caller.policy.quotas = quotas;
  return caller;
}

constexpr absl::Duration kRetry = absl::Seconds(3);

TEST(QuotasTest, LimitsCallsAtATime) {
  Quotas quotas;
  const Caller caller = Of("acme", {.concurrent_calls = 2});
  auto first = quotas.BeginCall(caller, kRetry);
  const auto second = quotas.BeginCall(caller, kRetry);
  ASSERT_TRUE(first.ok() && second.ok());
  const auto third = quotas.BeginCall(caller, kRetry);
  EXPECT_TRUE(absl::IsResourceExhausted(third.status()));
  EXPECT_THAT(std::string(third.status().message()), HasSubstr("2 concurrent calls"));
  EXPECT_EQ(ExceededQuota(third.status()), "max_concurrent_calls");
  EXPECT_EQ(RetryDelay(third.status()), kRetry);
  // Another tenant has its own, and the refused call takes no place.
  EXPECT_TRUE(quotas.BeginCall(Of("zeta", {.concurrent_calls = 1}), kRetry).ok());
  { const Quotas::CallSlot ended = *std::move(first); }
  EXPECT_TRUE(quotas.BeginCall(caller, kRetry).ok());
}

TEST(QuotasTest, ASlotThatIsMovedCountsOnce) {
  Quotas quotas;
  const Caller caller = Of("acme", {.concurrent_calls = 1});
  auto begun = quotas.BeginCall(caller, kRetry);
  ASSERT_TRUE(begun.ok());
  Quotas::CallSlot slot = *std::move(begun);
  Quotas::CallSlot other;
  other = std::move(slot);
  EXPECT_FALSE(quotas.BeginCall(caller, kRetry).ok());
  other = {};
  EXPECT_TRUE(quotas.BeginCall(caller, kRetry).ok());
}

TEST(QuotasTest, WithoutAQuotaNothingIsRefused) {
  Quotas quotas;
  const Caller caller = Of("acme", {});
  std::vector<absl::StatusOr<Quotas::CallSlot>> slots;
  slots.reserve(100);
  for (int i = 0; i < 100; ++i) {
    slots.push_back(quotas.BeginCall(caller, kRetry));
    EXPECT_TRUE(slots.back().ok());
    EXPECT_TRUE(quotas.TakeValues(caller, int64_t{1} << 40, absl::UnixEpoch()).ok());
  }
}

TEST(QuotasTest, AfterTheDelayTheSameRequestIsAccepted) {
  Quotas quotas;
  const Caller caller = Of("acme", {.values_per_second = 1000});
  absl::Time now = absl::UnixEpoch();
  EXPECT_TRUE(quotas.TakeValues(caller, 1000, now).ok());  // a second's worth at once
  const auto refused = quotas.TakeValues(caller, 300, now);
  EXPECT_EQ(ExceededQuota(refused.status()), "max_values_per_second");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("1000 values per second"));
  EXPECT_EQ(RetryDelay(refused.status()), absl::Milliseconds(300));
  now += RetryDelay(refused.status());
  EXPECT_FALSE(quotas.TakeValues(caller, 300, now - absl::Nanoseconds(1)).ok());
  EXPECT_TRUE(quotas.TakeValues(caller, 300, now).ok());
  EXPECT_FALSE(quotas.TakeValues(caller, 1, now).ok());
}

// A rate that does not divide a second: the delay is rounded up.
TEST(QuotasTest, TheDelayIsNeverTooShort) {
  Quotas quotas;
  const Caller caller = Of("acme", {.values_per_second = 7});
  absl::Time now = absl::UnixEpoch();
  for (int64_t values = 1; values < 200; ++values) {
    const auto first = quotas.TakeValues(caller, values, now);
    if (first.ok()) continue;
    now += RetryDelay(first.status());
    EXPECT_TRUE(quotas.TakeValues(caller, values, now).ok()) << values;
  }
}

TEST(QuotasTest, ALargeRequestIsPaidForAfterwards) {
  Quotas quotas;
  const Caller caller = Of("acme", {.values_per_second = 1000});
  const absl::Time now = absl::UnixEpoch();
  EXPECT_TRUE(quotas.TakeValues(caller, 10'000, now).ok());
  const auto next = quotas.TakeValues(caller, 1, now);
  // Ten seconds' worth were taken, one of them in advance.
  EXPECT_EQ(RetryDelay(next.status()), absl::Seconds(9) + absl::Milliseconds(1));
}

TEST(QuotasTest, WhatIsGivenBackCanBeTakenAgain) {
  Quotas quotas;
  const Caller caller = Of("acme", {.values_per_second = 1000});
  const absl::Time now = absl::UnixEpoch();
  const auto taken = quotas.TakeValues(caller, int64_t{1} << 62, now);
  ASSERT_TRUE(taken.ok());
  EXPECT_FALSE(quotas.TakeValues(caller, 1, now).ok());
  quotas.Refund(caller, *taken);
  EXPECT_TRUE(quotas.TakeValues(caller, 1000, now).ok());
  EXPECT_FALSE(quotas.TakeValues(caller, 1, now).ok());
}

TEST(QuotasTest, ManyThreadsTogetherTakeNoMoreThanTheQuota) {
  Quotas quotas;
  const Caller caller = Of("acme", {.concurrent_calls = 5, .values_per_second = 1000});
  std::atomic<int64_t> accepted{0};
  std::atomic<int64_t> running{0};
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 500; ++call) {
        const auto slot = quotas.BeginCall(caller, kRetry);
        if (slot.ok()) {
          if (++running > 5) exceeded = true;
          --running;
        }
        if (quotas.TakeValues(caller, 10, absl::UnixEpoch()).ok()) accepted += 10;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(accepted, 1000);
}

}  // namespace
}  // namespace chorale
