// The present speed of the backend, from which the duration of accepted work is estimated.
#ifndef CHORALE_ENGINE_SCHEDULING_WORK_RATES_H_
#define CHORALE_ENGINE_SCHEDULING_WORK_RATES_H_

#include "absl/time/time.h"

namespace chorale {

// FLOPs of decodes and of other work. They are separate because a decode step that is bound by
// memory does fewer FLOPs per second than other work.
struct FlopsOfTick {
  double decode = 0;
  double other = 0;
};

// The mean rates of about the last second of work, with exponentially smaller weights for older
// ticks. A rate depends on the amount of work that runs together, so it is valid only for the
// present load.
class WorkRates {
 public:
  // Observes a tick with this work, which took `decode_time` and `other_time`.
  void Observe(const FlopsOfTick& flops, absl::Duration decode_time, absl::Duration other_time);

  // Returns the time of work; zero before the first observation. A kind of work that was never
  // observed is assumed to have the rate of the other kind.
  absl::Duration TimeOf(const FlopsOfTick& flops) const;

 private:
  struct Rate {
    double flops = 0;
    double seconds = 0;

    void Observe(double tick_flops, absl::Duration time);
    double per_second() const { return seconds > 0 ? flops / seconds : 0; }
  };

  Rate decode_;
  Rate other_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_WORK_RATES_H_
