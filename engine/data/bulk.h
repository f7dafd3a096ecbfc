// Where the bulk of a column's numbers lies, and how numbers beyond it are drawn in, so that a few
// cells far out do not decide the unit in which all others are seen.
#ifndef CHORALE_ENGINE_DATA_BULK_H_
#define CHORALE_ENGINE_DATA_BULK_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// The centre is the median, the scale s the interquartile range / 1.349, which is the standard
// deviation of a normal distribution. With z the distance from the centre in scales:
//
//   Squash(x) = x                                             where z <= 8
//               nearest end of the centre +- s (8 + log(1 + z - 8))  beyond
//
// monotone, and continuous with its slope.
//
// Where the quartiles are equal, at least half of the numbers are the median, which is an *atom*:
// the zeros of a column that is mostly zero. They tell nothing about the scale, so it is that of
// the numbers that differ from the atom, and the centre is the interval from the atom to the median
// of these. If the quartiles of these are equal as well, they are an atom too, and so on, up to
// three. Of a column of two values, and of one that then still has equal quartiles, nothing lies
// beyond the bulk.
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

  // z; at most the largest float64. 0 where the bulk is everywhere.
  double Distance(double x) const;
  // The number at this distance from the centre, on the side of x. REQUIRES: Distance(x) > 0.
  double At(double distance, double x) const {
    return x > high_ ? high_ + scale_ * distance : low_ - scale_ * distance;
  }

  bool Contains(double x) const { return Distance(x) <= kReach; }
  double Squash(double x) const { return Contains(x) ? x : SquashBeyond(x); }

  bool everywhere() const { return std::isinf(scale_); }
  double scale() const { return scale_; }  // infinity where the bulk is everywhere
  // The median, if the quartiles are equal but not all numbers are.
  std::optional<double> atom() const { return atom_; }
  // Whether at least 99 % of the numbers are equal; also where all are, or there are none.
  bool all_but_constant() const { return all_but_constant_; }

 private:
  // Finds scale and centre beside the atom. `others` are sorted, and differ from it.
  void FindBeside(std::vector<double> others);
  double SquashBeyond(double x) const;

  double low_ = 0;  // the centre
  double high_ = 0;
  double scale_ = std::numeric_limits<double>::infinity();
  std::optional<double> atom_;
  bool all_but_constant_ = true;
};

// How many of so many numbers may lie far from all others and be errors: one in 50, but always one,
// and never all. REQUIRES: 0 < numbers.
int64_t MostFarNumbers(int64_t numbers);

// Numbers that lie so far from all others that they may be errors.
struct FarNumbers {
  int64_t count = 0;
  // The distance of the farthest of the others, but at least the least one asked for.
  double limit = 0;
};

// Of these distances from a centre, the largest `count` of at most `most` that are each more than
// `gap` times the limit. REQUIRES: 0 <= most < the number of distances.
FarNumbers FindFarNumbers(std::vector<double> distances, double least, double gap, int64_t most);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_BULK_H_
