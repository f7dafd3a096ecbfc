// The engine's clock: it never jumps, whatever is done to the time of day.
#ifndef CHORALE_BASE_MONOTONIC_CLOCK_H_
#define CHORALE_BASE_MONOTONIC_CLOCK_H_

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace chorale {

// Time on a steady clock, counted from an arbitrary moment. Compare only with others of its kind.
inline absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// The moment on the steady clock that is as far away as `wall` is now.
inline absl::Time ToMonotonic(absl::Time wall) { return MonotonicNow() + (wall - absl::Now()); }

}  // namespace chorale

#endif  // CHORALE_BASE_MONOTONIC_CLOCK_H_
