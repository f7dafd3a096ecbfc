// Retries of calls that fail with a transient error.
#ifndef CHORALE_CLIENT_CPP_RETRY_H_
#define CHORALE_CLIENT_CPP_RETRY_H_

#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/cancellation.h"

namespace chorale::client {

struct RetryPolicy {
  int max_attempts = 4;  // 1: no retries
  absl::Duration first_delay = absl::Milliseconds(200);
  absl::Duration max_delay = absl::Seconds(10);
  double multiplier = 2.0;
  // Called before each wait; may be empty.
  std::function<void(const absl::Status& why, absl::Duration delay)> on_retry = nullptr;
};

// Whether a retry can succeed: UNAVAILABLE, or RESOURCE_EXHAUSTED with a retry delay.
bool IsTransient(const absl::Status& status);

// Returns the delay after the n-th failed attempt (n from 1): the server's retry delay, or
// exponential backoff if the server sent none. `jitter` in [0, 1) adds up to a quarter, so that
// clients do not all retry at the same time.
absl::Duration DelayAfter(int failed_attempts, const absl::Status& status,
                          const RetryPolicy& policy, double jitter);

// Calls `attempt` until it succeeds, fails with an error that is not transient, or was called
// max_attempts times, and returns the last status. Does not wait beyond `deadline`, a time of
// Clock::Real(). Returns CANCELLED if the call is cancelled during a wait.
absl::Status WithRetry(const RetryPolicy& policy, absl::Time deadline,
                       const Cancellation* cancellation, absl::FunctionRef<absl::Status()> attempt);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_RETRY_H_
