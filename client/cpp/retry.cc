#include "client/cpp/retry.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/clock.h"
#include "client/cpp/status_from_grpc.h"

namespace chorale::client {
namespace {

constexpr double kMostJitter = 0.25;

}  // namespace

bool IsTransient(const absl::Status& status) {
  // Without a delay, RESOURCE_EXHAUSTED is an error that a retry does not avoid: a message that is
  // too large, or a quota.
  return status.code() == absl::StatusCode::kUnavailable ||
         (status.code() == absl::StatusCode::kResourceExhausted &&
          RetryDelay(status) != absl::InfiniteDuration());
}

absl::Duration DelayAfter(int failed_attempts, const absl::Status& status,
                          const RetryPolicy& policy, double jitter) {
  absl::Duration delay = RetryDelay(status);
  if (delay == absl::InfiniteDuration()) {
    delay = std::min(policy.max_delay,
                     policy.first_delay * std::pow(policy.multiplier, failed_attempts - 1));
  }
  return delay * (1.0 + kMostJitter * jitter);
}

absl::Status WithRetry(const RetryPolicy& policy, absl::Time deadline,
                       const Cancellation* cancellation,
                       absl::FunctionRef<absl::Status()> attempt) {
  std::minstd_rand random(std::random_device{}());
  std::uniform_real_distribution<double> jitter(0.0, 1.0);
  for (int attempts = 1;; ++attempts) {
    absl::Status status = attempt();
    if (status.ok() || !IsTransient(status) || attempts >= policy.max_attempts) return status;
    const absl::Duration delay = DelayAfter(attempts, status, policy, jitter(random));
    const absl::Time next = Clock::Real()->Now() + delay;
    if (next >= deadline) return status;
    if (policy.on_retry) policy.on_retry(status, delay);
    if (!SleepUntil(next, {cancellation})) return absl::CancelledError("cancelled");
  }
}

}  // namespace chorale::client
