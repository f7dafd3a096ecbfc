// The last value of a path whose total is known, and the weight of the path.
#ifndef CHORALE_ENGINE_SESSION_KNOWN_TOTAL_H_
#define CHORALE_ENGINE_SESSION_KNOWN_TOTAL_H_

#include <cmath>
#include <cstdint>

#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/data/feature_transform.h"
#include "kernels/ops/truncated_mixture.h"

namespace chorale {

// The total of a group, in [lower, upper], in the user's units.
struct KnownTotal {
  double lower = 0;
  double upper = 0;

  bool is_known() const { return std::isfinite(lower) || std::isfinite(upper); }
  bool is_exact() const { return lower == upper; }
};

inline KnownTotal TotalOf(const KnownTotals& totals, int64_t group) {
  return {totals.lower[group], totals.upper[group]};
}

// The sum of the values of a path without its last one, in the user's units.
class PartialSum {
 public:
  void Add(double value);
  double sum() const { return sum_; }
  // A bound of the rounding error of `total - sum()`.
  double RoundingError(double total) const;

 private:
  double sum_ = 0;
  double magnitude_ = 0;  // the sum of the magnitudes
  int64_t count_ = 0;
};

// The last value of a path by importance sampling with one weighted step. Let S be the sum of the
// other values, which are drawn from the model without regard to the total, and p the mixture of
// the last value given them. The distribution of a path given its total is the one without it,
// times
//
//   p(total - S)                    if the total is known exactly: the last value is total - S
//   P(lower - S <= Y <= upper - S)  otherwise: the last value is drawn from p on this interval
//
// divided by the mean of this factor over all paths. The factor is the weight of the path. A value
// that is snapped has a discrete distribution: the probability of a possible value is that of the
// numbers that are snapped to it. A target with atoms has both kinds of values: with an exact
// total, the weight is a probability if the last value is an atom, and otherwise a density.
struct LastValue {
  double value = 0;         // in the user's units
  double unsnapped = 0;     // the number that was drawn; with an exact total, the value
  double log_weight = 0;    // natural log; -inf if the total is not possible on this path
  bool is_density = false;  // of the weight, in the inverse of the user's unit
};

// `draw` is used unless the total is exact. If the total is not possible, the value is total - S,
// or the end of [lower - S, upper - S] that is nearest to a possible value. REQUIRES:
// total.is_known().
LastValue LastValueForTotal(const KnownTotal& total, const PartialSum& others,
                            const MixtureSpan& mixture, const FeatureTransform& transform,
                            Snapping snapping, const kernels::TruncatedDraw& draw);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_KNOWN_TOTAL_H_
