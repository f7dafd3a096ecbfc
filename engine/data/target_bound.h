// Which values of a context's target are taken for errors, and what the model reads instead.
#ifndef CHORALE_ENGINE_DATA_TARGET_BOUND_H_
#define CHORALE_ENGINE_DATA_TARGET_BOUND_H_

#include <limits>

#include "absl/types/span.h"
#include "engine/data/bulk.h"

namespace chorale {

// One wrong value must not set the unit of all others. But a target with heavy tails must stay as
// it is, for a rule that draws tails in bends the sum of all that is predicted. So a value is wrong
// only if there is a wide gap between it and the others.
//
// With a_1 >= a_2 >= ... the values' distances from the median in scales of the bulk
// (engine/data/bulk.h), the j farthest of n values are wrong if
//
//   a_j > 30 L,  L = max(2, a_(j+1))
//
// for the largest such j of at most n / 50, but always 1, of which no three agree: a_i > 5 a_(i+2)
// for all i of at most j - 2. So a group of like values, such as a few wholesale orders among those
// of shops, is a part of the target. The wrong ones are brought back to the distance L.
//
// A target with an atom, such as the claims of an insurer, which are mostly zero, has few values
// beside it, and these may lie far out together. There j is at most 2, and 2 only where not even
// these two agree, a_1 > 5 a_2. A target of two values has no bound.
class TargetBound {
 public:
  // How close to the median no value is ever brought, in scales of the bulk.
  static constexpr double kLeastLimit = 2;

  // Nowhere.
  TargetBound() = default;

  // Of numbers without NaN.
  static TargetBound Of(absl::Span<const double> values);

  bool Contains(double value) const { return bulk_.Distance(value) <= limit_; }
  double BringBack(double value) const { return Contains(value) ? value : bulk_.At(limit_, value); }

  // L; infinity where no value is wrong.
  double limit() const { return limit_; }

 private:
  Bulk bulk_;
  double limit_ = std::numeric_limits<double>::infinity();
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_TARGET_BOUND_H_
