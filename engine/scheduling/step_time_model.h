// Estimates the duration of a step on a device that steps all decodes together. No threads, no
// clock.
#ifndef CHORALE_ENGINE_SCHEDULING_STEP_TIME_MODEL_H_
#define CHORALE_ENGINE_SCHEDULING_STEP_TIME_MODEL_H_

#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace chorale {

// Keeps one time for each power of two of decodes. A few decodes leave such a device partly idle,
// so their step time is not an estimate for many decodes.
//
// Thread contract: not thread-safe; the engine thread owns every instance.
class StepTimeModel {
 public:
  // Observes that `decodes` decodes took `steps` steps together in `time`. REQUIRES: both numbers
  // are positive.
  void Observe(int64_t decodes, int64_t steps, absl::Duration time);

  // Returns the time of one step of `decodes` decodes. If this number was not observed, returns the
  // time of the next larger observed number, or else of the next smaller. Returns 0 before the
  // first observation. REQUIRES: decodes > 0.
  absl::Duration StepTime(int64_t decodes) const;

  // Returns the number of steps that fit into `time`, at least 1. Returns 1 before the first
  // observation.
  int64_t StepsWithin(int64_t decodes, absl::Duration time) const;

 private:
  static constexpr int kSizes = 64;
  std::array<double, kSizes> seconds_ = {};  // by the bits of the number of decodes; 0: unknown
};

// Returns the time that the first of two parts took of `elapsed`. The expected times of the first
// part (`expected`) and of the second part (`other`) may be 0: unknown. If both are known, the time
// is divided in proportion. If one is known, that part gets its expected time, but at most half;
// the other part gets the rest. If neither is known, each part gets half.
absl::Duration SplitElapsed(absl::Duration elapsed, absl::Duration expected, absl::Duration other);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_STEP_TIME_MODEL_H_
