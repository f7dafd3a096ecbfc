// Where the bulk of a column's numbers lies, and how numbers beyond it are drawn in, so that a few
// cells far out do not decide the unit in which all others are seen.
#ifndef CHORALE_ENGINE_DATA_BULK_H_
#define CHORALE_ENGINE_DATA_BULK_H_

#include <cmath>
#include <limits>

#include "absl/types/span.h"

namespace chorale {

// With m the median and s the interquartile range / 1.349, which is the standard deviation of a
// normal distribution, z = (x - m) / s:
//
//   Squash(x) = x                                         where |z| <= 8
//               m + s * sign(z) * (8 + log(1 + |z| - 8))  beyond
//
// monotone, and continuous with its slope. Where the quartiles are equal, s is 1.2533 times the
// mean of the smallest 99 % of |x - m| (again the standard deviation, of a normal distribution);
// where these are all 0, the column is *all but constant*, and s is its standard deviation.
//
// The squashed number is finite for every finite number; in another unit it is the same, in that.
class Bulk {
 public:
  // How far the bulk reaches to both sides of its centre, in units of its scale.
  static constexpr double kReach = 8;

  // Of no numbers: everywhere.
  Bulk() = default;

  // Ignores NaN. Everywhere, where all numbers are equal, there are none, or the scale is beyond
  // what a float64 can hold.
  static Bulk Of(absl::Span<const double> numbers);

  // |z|; at most the largest float64. 0 where the bulk is everywhere.
  double Distance(double x) const;
  // The number at this distance from the centre, on the side of x.
  double At(double distance, double x) const {
    return centre_ + std::copysign(scale_ * distance, x - centre_);
  }

  bool Contains(double x) const { return Distance(x) <= kReach; }
  double Squash(double x) const { return Contains(x) ? x : SquashBeyond(x); }

  // Whether at least 99 % of the numbers are equal; also where all are, or there are none.
  bool all_but_constant() const { return all_but_constant_; }

 private:
  double SquashBeyond(double x) const;

  double centre_ = 0;
  double scale_ = std::numeric_limits<double>::infinity();
  bool all_but_constant_ = true;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_BULK_H_
