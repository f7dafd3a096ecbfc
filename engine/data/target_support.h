// Which values a target can take, as far as its context shows: a model answers with a continuous
// distribution, but counts are whole numbers, and what is mostly zero is exactly zero.
#ifndef CHORALE_ENGINE_DATA_TARGET_SUPPORT_H_
#define CHORALE_ENGINE_DATA_TARGET_SUPPORT_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// The support of a target whose context, of at least 10 rows, repeats its values. It is the first
// of these that fits:
//
//   set       At most 32 different values, each in at least 3 rows, such as a list of prices, if no
//             lattice fits, or if more than half of the lattice's points from the smallest to the
//             largest value do not occur.
//   lattice   All values are a first value plus whole multiples of a step, in decimals; the step is
//             the largest that fits. Leaving out the rows of the most frequent value, at least half
//             of the others share their value with another row. The step is 1, as of counts and
//             years, or at least a tenth of the spread (Bulk::scale, engine/data/bulk.h).
//   atoms     Each value that occurs in at least 5 % of the rows and in at least 5 rows; none if
//             there are more than 8.
//
// Snap takes a number to the nearest point of the lattice or of the set. Of atoms it takes what is
// closer to the atom than half of the distance at which the next values lie: that which one in 20
// of the other values on that side are within.
//
// Snap never leaves the bounds. The smallest and the largest value of a set are bounds. Of the
// others, the smallest or largest value is a bound if it is an atom; both are if there are only two
// values, or if each value occurs in at least 2 % of the rows and in at least 5, as in a scale from
// 1 to 5. A lattice without negative values has its smallest point that is not negative as a bound.
//
// Snap is monotone, so a quantile of the snapped values is the snapped quantile. Immutable and
// thread-safe.
class TargetSupport {
 public:
  // The whole line: Snap changes nothing.
  TargetSupport() = default;

  // Of finite values [n]. Time: a sort.
  static TargetSupport Of(absl::Span<const double> values);

  double Snap(double y) const;

  bool is_whole_line() const { return kind_ == Kind::kWholeLine; }
  // What values are snapped to, for people: "whole numbers, at least 0".
  const std::string& description() const { return description_; }

 private:
  enum class Kind { kWholeLine, kLattice, kSet, kAtoms };
  struct Atom {
    double value = 0;
    double below = 0;  // what lies at most so far below or above is the atom
    double above = 0;
  };
  // A value and its rows, in ascending order of values.
  struct Run {
    double value = 0;
    int64_t rows = 0;
  };

  bool FindLattice(absl::Span<const Run> runs, double spread);
  void FindAtoms(absl::Span<const Run> runs, int64_t rows);
  // Points of the lattice from the smallest to the largest value.
  double PointsOf(absl::Span<const Run> runs) const;
  void FindBounds(absl::Span<const Run> runs, int64_t rows);
  std::string Describe() const;

  Kind kind_ = Kind::kWholeLine;
  double low_ = -std::numeric_limits<double>::infinity();
  double high_ = std::numeric_limits<double>::infinity();
  double scale_ = 1;  // of a lattice: its points are (first_ + k * step_) / scale_, integers
  double first_ = 0;
  double step_ = 1;
  std::vector<double> set_;
  std::vector<Atom> atoms_;
  std::string description_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_TARGET_SUPPORT_H_
