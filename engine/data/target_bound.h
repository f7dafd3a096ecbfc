// Detects values of a context's target that are errors, and clips them for the model.
#ifndef CHORALE_ENGINE_DATA_TARGET_BOUND_H_
#define CHORALE_ENGINE_DATA_TARGET_BOUND_H_

#include <limits>

#include "absl/types/span.h"
#include "engine/data/bulk.h"

namespace chorale {

// A single wrong value must not determine the scale of all others. But a target with heavy tails
// must be unchanged, because a rule that compresses tails biases the sum of predictions. So a value
// is wrong only if there is a wide gap between it and the others.
//
// Let a_1 >= a_2 >= ... be the distances of the values from the median in scales of the bulk
// (engine/data/bulk.h). The j farthest of n values are wrong if
//
//   a_j > 30 L,  L = max(2, a_(j+1))
//
// for the largest such j <= max(1, n / 50) of which no three agree: a_i > 5 a_(i+2) for 1 <= i <=
// j-2. So a group of similar values, such as a few wholesale orders in a shop, is a part of the
// target. Wrong values are clipped to the distance L.
//
// If no value is wrong, L = max(2, a_1). A value that is appended later, and so does not determine
// L, is wrong if its distance is greater than 30 L.
//
// A target with an atom, such as insurance claims, which are mostly zero, has few other values, and
// these may be far from the atom together. In this case j is at most 2, and 2 only if these two do
// not agree either: a_1 > 5 a_2. A target with two distinct values has no bound.
class TargetBound {
 public:
  // The smallest possible limit, in scales of the bulk.
  static constexpr double kLeastLimit = 2;
  // The distance beyond which a value is wrong, in limits.
  static constexpr double kGap = 30;

  // No bound: every value is kept.
  TargetBound() = default;

  // REQUIRES: no value is NaN.
  static TargetBound Of(absl::Span<const double> values);

  // Returns false for a value that is wrong.
  bool Contains(double value) const { return bulk_.Distance(value) <= kGap * limit_; }
  double BringBack(double value) const { return Contains(value) ? value : bulk_.At(limit_, value); }

  // L; infinity if there is no bound.
  double limit() const { return limit_; }

 private:
  Bulk bulk_;
  double limit_ = std::numeric_limits<double>::infinity();
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_TARGET_BOUND_H_
