// Waiting for what another thread or process does in its own time.
#ifndef CHORALE_TESTS_SUPPORT_EVENTUALLY_H_
#define CHORALE_TESTS_SUPPORT_EVENTUALLY_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace chorale {

// How long a test waits for what has to happen, before it says that it never does. Only a failing
// test takes so long, so this is for the busiest of machines.
inline constexpr absl::Duration kPatience = absl::Minutes(1);

// True as soon as `condition` is; false when it is not within `patience`.
template <typename Condition>
bool Eventually(const Condition& condition, absl::Duration patience = kPatience) {
  const absl::Time end = absl::Now() + patience;
  while (!condition()) {
    if (absl::Now() >= end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_SUPPORT_EVENTUALLY_H_
