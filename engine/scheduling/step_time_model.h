// How long a step takes on a device that steps all decodes together. No threads, no clock.
#ifndef CHORALE_ENGINE_SCHEDULING_STEP_TIME_MODEL_H_
#define CHORALE_ENGINE_SCHEDULING_STEP_TIME_MODEL_H_

#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace chorale {

// Keeps one time for each power of two of decodes: a few decodes leave such a device partly idle,
// so their step time says little about that of many.
//
// Thread contract: not thread-safe; the engine thread owns every instance.
class StepTimeModel {
 public:
  // `decodes` decodes took `steps` steps together in `time`. REQUIRES: both are positive.
  void Observe(int64_t decodes, int64_t steps, absl::Duration time);

  // Time of one step of `decodes` decodes. If that number was not observed: of the next larger
  // number that was, or else of the next smaller one. 0 before the first observation.
  // REQUIRES: decodes > 0.
  absl::Duration StepTime(int64_t decodes) const;

  // How many steps fit into `time`: at least 1; 1 before the first observation.
  int64_t StepsWithin(int64_t decodes, absl::Duration time) const;

 private:
  static constexpr int kSizes = 64;
  std::array<double, kSizes> seconds_ = {};  // by the bits of the number of decodes; 0: unknown
};

// The time that the first of two parts took of `elapsed`, given the expected times of the first
// (`expected`) and the second (`other`); 0: unknown. With both known it is split in proportion.
// With one known, that part gets its expected time; the other part gets the rest, and at least
// half.
absl::Duration SplitElapsed(absl::Duration elapsed, absl::Duration expected, absl::Duration other);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_STEP_TIME_MODEL_H_
