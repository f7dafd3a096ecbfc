// The clock of all waiting and of all deadlines: it never jumps, whatever is done to the time of
// day.
#ifndef CHORALE_BASE_MONOTONIC_CLOCK_H_
#define CHORALE_BASE_MONOTONIC_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"

namespace chorale {

// Time on a steady clock, counted from an arbitrary moment. Compare only with others of its kind.
inline absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace chorale

#endif  // CHORALE_BASE_MONOTONIC_CLOCK_H_
