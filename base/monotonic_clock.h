// The clock for waits and deadlines. Changes of the time of day do not affect it.
#ifndef CHORALE_BASE_MONOTONIC_CLOCK_H_
#define CHORALE_BASE_MONOTONIC_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"

namespace chorale {

// Time on a steady clock with an arbitrary epoch. Compare it only with other results of
// MonotonicNow.
inline absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace chorale

#endif  // CHORALE_BASE_MONOTONIC_CLOCK_H_
