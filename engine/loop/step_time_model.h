// How long a step takes on a device that takes it for all decodes together. No threads, no clock.
#ifndef CHORALE_ENGINE_LOOP_STEP_TIME_MODEL_H_
#define CHORALE_ENGINE_LOOP_STEP_TIME_MODEL_H_

#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace chorale {

// Learnt for each power of two of decodes: few of them leave such a device idle, so that a step's
// time says little about one with more.
//
// Thread contract: not thread-safe; the engine thread owns every instance.
class StepTimes {
 public:
  // `decodes` of them took `steps` steps together. REQUIRES: both are positive.
  void Observe(int64_t decodes, int64_t steps, absl::Duration time);

  // Of one step of so many decodes, or of the next number of them that is known, more rather than
  // fewer; 0 before the first observation. REQUIRES: decodes > 0.
  absl::Duration Of(int64_t decodes) const;

  // How many steps fit into `time`: at least one, and one before the first observation.
  int64_t Fitting(int64_t decodes, absl::Duration time) const;

 private:
  static constexpr int kSizes = 64;
  std::array<double, kSizes> seconds_ = {};  // by the bits of the number of decodes; 0: unknown
};

// What one of two parts took of `elapsed`, when `expected` was expected of it and `other` of the
// other part: in proportion, or what the one that is known leaves, within reason. 0 is not known.
absl::Duration ShareOf(absl::Duration elapsed, absl::Duration expected, absl::Duration other);

}  // namespace chorale

#endif  // CHORALE_ENGINE_LOOP_STEP_TIME_MODEL_H_
