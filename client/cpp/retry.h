// When and how often a call that the server turned away is made again.
#ifndef CHORALE_CLIENT_CPP_RETRY_H_
#define CHORALE_CLIENT_CPP_RETRY_H_

#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/cancellation.h"

namespace chorale::client {

struct RetryPolicy {
  int max_attempts = 4;  // 1: never again
  absl::Duration first_delay = absl::Milliseconds(200);
  absl::Duration max_delay = absl::Seconds(10);
  double multiplier = 2.0;
  // Told before each wait; may be empty.
  std::function<void(const absl::Status& why, absl::Duration delay)> on_retry = nullptr;
};

// Whether trying again can help: RESOURCE_EXHAUSTED and UNAVAILABLE.
bool IsTransient(const absl::Status& status);

// How long to wait after the n-th failed attempt (n from 1): what the server asked for when it did,
// else exponential backoff; `jitter` in [0, 1) lengthens either by up to a quarter, so that clients
// do not come back all at once.
absl::Duration DelayAfter(int failed_attempts, const absl::Status& status,
                          const RetryPolicy& policy, double jitter);

// Makes attempts until one succeeds, fails for good, or the policy is used up; returns the last
// one's status. Gives up at once when the wait would pass `deadline`; CANCELLED when cancelled.
absl::Status WithRetry(const RetryPolicy& policy, absl::Time deadline,
                       const Cancellation* cancellation, absl::FunctionRef<absl::Status()> attempt);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_RETRY_H_
