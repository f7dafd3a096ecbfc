// How fast the backend works now, to tell how long the work that was accepted will take.
#ifndef CHORALE_ENGINE_SCHEDULING_WORK_RATES_H_
#define CHORALE_ENGINE_SCHEDULING_WORK_RATES_H_

#include "absl/time/time.h"

namespace chorale {

// FLOPs of decodes and of other work. The two are apart because a decode step does fewer FLOPs a
// second than anything else where it is bound by memory.
struct FlopsOfTick {
  double decode = 0;
  double other = 0;
};

// The mean rates of about the last second of work, whose older ticks count exponentially less. A
// rate depends on how much runs together, so it is right for the load that there is.
class WorkRates {
 public:
  // A tick did this in `decode_time` plus `other_time`.
  void Observe(const FlopsOfTick& flops, absl::Duration decode_time, absl::Duration other_time);

  // Zero before anything was observed. A kind of work that was never observed goes as fast as the
  // other kind.
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
