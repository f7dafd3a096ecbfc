// The clock for waits, deadlines and durations, and the time of day.
#ifndef CHORALE_BASE_CLOCK_H_
#define CHORALE_BASE_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// Changes of the time of day do not affect Now: its epoch is arbitrary. Compare a time only with
// other times of the same clock. A test can replace the clock to skip a wait.
//
// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // The clock of the machine.
  static const Clock* Real();

  virtual absl::Time Now() const = 0;
  // The time of day, which an operator may set: only for times that outlive the process or that
  // users see.
  virtual absl::Time TimeOfDay() const = 0;

  // Waits until `changed` is notified or until `time`. May wake earlier: wait in a loop that checks
  // the condition and the time.
  virtual void WaitUntil(absl::Time time, CondVar* changed, Mutex* mutex) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

}  // namespace chorale

#endif  // CHORALE_BASE_CLOCK_H_
