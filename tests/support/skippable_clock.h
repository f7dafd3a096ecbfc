// A clock for tests that would otherwise wait.
#ifndef CHORALE_TESTS_SUPPORT_SKIPPABLE_CLOCK_H_
#define CHORALE_TESTS_SUPPORT_SKIPPABLE_CLOCK_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "base/clock.h"

namespace chorale {

// Runs like the real clock, from a time that Skip puts forward. Thread-safe.
class SkippableClock final : public Clock {
 public:
  void Skip(absl::Duration time) { skipped_ns_ += absl::ToInt64Nanoseconds(time); }

  absl::Time Now() const override {
    return Clock::Real()->Now() + absl::Nanoseconds(skipped_ns_.load());
  }

  absl::Time TimeOfDay() const override {
    return Clock::Real()->TimeOfDay() + absl::Nanoseconds(skipped_ns_.load());
  }

  // Wakes up every millisecond, because Skip notifies nobody.
  void WaitUntil(absl::Time time, CondVar* changed, Mutex* mutex) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const absl::Duration left = std::min(time - Now(), absl::Milliseconds(1));
    changed->WaitFor(mutex, absl::ToChronoNanoseconds(left));
  }

 private:
  std::atomic<int64_t> skipped_ns_{0};
};

}  // namespace chorale

#endif  // CHORALE_TESTS_SUPPORT_SKIPPABLE_CLOCK_H_
