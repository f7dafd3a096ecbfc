// The bulk of a column's numbers, and the compression of numbers beyond it: without it, a few
// extreme cells would determine the scale of the column.
#ifndef CHORALE_ENGINE_DATA_BULK_H_
#define CHORALE_ENGINE_DATA_BULK_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// The centre is the median. The scale s is the interquartile range / 1.349, which for a normal
// distribution is the standard deviation. With the distance z from the centre in units of s:
//
//   Squash(x) = x                                             where z <= 8
//               nearest end of the centre +- s (8 + log(1 + z - 8))  beyond
//
// The map is monotone and continuously differentiable.
//
// If the quartiles are equal, at least half of the numbers equal the median. This value is an
// *atom*, such as zero in a column that is mostly zero. The atom carries no information about the
// scale: the scale is computed from the other numbers, and the centre is the interval from the atom
// to their median. If the quartiles of the other numbers are equal as well, their median is a
// further atom, and so on, up to three atoms. If a column has two distinct values, or its quartiles
// are equal after three atoms, no number lies beyond the bulk.
//
// The result is finite for every finite number. It does not depend on the unit of the column.
class Bulk {
 public:
  // The extent of the bulk on both sides of its centre, in units of its scale.
  static constexpr double kReach = 8;

  // The bulk of no numbers: it covers every number.
  Bulk() = default;

  // Ignores NaN. The bulk covers every number if `numbers` is empty, all numbers are equal, or the
  // scale exceeds the range of float64.
  static Bulk Of(absl::Span<const double> numbers);

  // The distance z, at most the largest float64. 0 if the bulk covers every number.
  double Distance(double x) const;
  // The number at this distance from the centre, on the side of x. REQUIRES: Distance(x) > 0.
  double At(double distance, double x) const {
    return x > high_ ? high_ + scale_ * distance : low_ - scale_ * distance;
  }

  bool Contains(double x) const { return Distance(x) <= kReach; }
  double Squash(double x) const { return Contains(x) ? x : SquashBeyond(x); }

  bool everywhere() const { return std::isinf(scale_); }
  double scale() const { return scale_; }  // infinity if the bulk covers every number
  // The median, if the quartiles are equal but not all numbers are.
  std::optional<double> atom() const { return atom_; }
  // Whether at least 99 % of the numbers are equal, or there are none.
  bool all_but_constant() const { return all_but_constant_; }

 private:
  // Computes the scale and the centre if there is an atom. `others` are the sorted numbers that
  // differ from the atom.
  void FindBeside(std::vector<double> others);
  double SquashBeyond(double x) const;

  double low_ = 0;  // the centre
  double high_ = 0;
  double scale_ = std::numeric_limits<double>::infinity();
  std::optional<double> atom_;
  bool all_but_constant_ = true;
};

// The maximum count of outliers among `numbers` numbers that may be errors: one in 50, but at least
// one, and never all. REQUIRES: numbers > 0.
int64_t MostFarNumbers(int64_t numbers);

// Outliers that may be errors.
struct FarNumbers {
  int64_t count = 0;
  // The largest distance of the other numbers, but at least `least`.
  double limit = 0;
};

// Returns the largest `count` of the distances, with count <= most, that are each greater than
// `gap` times the limit. REQUIRES: 0 <= most < the number of distances.
FarNumbers FindFarNumbers(std::vector<double> distances, double least, double gap, int64_t most);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_BULK_H_
