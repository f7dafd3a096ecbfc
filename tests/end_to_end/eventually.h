// Waiting for what a server does in its own time.
#ifndef CHORALE_TESTS_END_TO_END_EVENTUALLY_H_
#define CHORALE_TESTS_END_TO_END_EVENTUALLY_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace chorale::end_to_end {

// True as soon as `condition` is; false when it is not within `timeout`.
template <typename Condition>
bool Eventually(const Condition& condition, absl::Duration timeout = absl::Seconds(10)) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!condition()) {
    if (absl::Now() >= deadline) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_EVENTUALLY_H_
