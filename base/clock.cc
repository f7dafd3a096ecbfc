#include "base/clock.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace chorale {
namespace {

// Bounds a wait, because the sum of a time and a distant deadline would overflow.
constexpr absl::Duration kLongestWait = absl::Hours(1);

class RealClock final : public Clock {
 public:
  absl::Time Now() const override {
    return absl::UnixEpoch() +
           absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }

  absl::Time TimeOfDay() const override { return absl::Now(); }

  void WaitUntil(absl::Time time, CondVar* changed, Mutex* mutex) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const absl::Duration left = std::min(time - Now(), kLongestWait);
    changed->WaitFor(mutex, absl::ToChronoNanoseconds(left));
  }
};

}  // namespace

const Clock* Clock::Real() {
  static const RealClock clock;
  return &clock;
}

}  // namespace chorale
