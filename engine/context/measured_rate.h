// The measured speed of a kind of work, from which the duration of similar work is estimated.
#ifndef CHORALE_ENGINE_CONTEXT_MEASURED_RATE_H_
#define CHORALE_ENGINE_CONTEXT_MEASURED_RATE_H_

#include <cmath>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// The mean rate, in FLOPs per second, of about the last second of work, with exponentially smaller
// weights for older work. Thread-safe.
class MeasuredRate {
 public:
  // Observes that work of `flops` took `time`. Ignores work that took no time.
  void Observe(double flops, absl::Duration time) {
    const double seconds = absl::ToDoubleSeconds(time);
    if (!(flops > 0) || !(seconds > 0)) return;
    const double kept = std::exp(-seconds);  // 1/e after a second of work
    MutexLock lock(&mutex_);
    flops_ = kept * flops_ + flops;
    seconds_ = kept * seconds_ + seconds;
  }

  // Returns the time of work of `flops`; nullopt before the first observation.
  std::optional<absl::Duration> TimeOf(double flops) const {
    MutexLock lock(&mutex_);
    if (flops_ == 0) return std::nullopt;
    return absl::Seconds(flops / flops_ * seconds_);
  }

 private:
  mutable Mutex mutex_;
  double flops_ ABSL_GUARDED_BY(mutex_) = 0;
  double seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_MEASURED_RATE_H_
