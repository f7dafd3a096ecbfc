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
//   atoms     Each value that occurs in at least 5 % of the rows, in at least 5 rows, and in three
//             times as many as the median of the ten values next to it on both sides and itself;
//             none if there are more than 8.
//
// Snap takes a number to the nearest point of the lattice or of the set. Of atoms it takes what is
// closer to the atom than half of the distance at which the next values lie: that which one in 20
// of the other values on that side are within. Where the others have a long tail a model is much
// less sure of where the atom lies than that, and small values tell hardly anything of a sum: so it
// takes all within which the distances of the others add up to 1/500 of all distances on that side,
// if that is one in 20 at least, but no more than half as many as the atom has rows.
//
// Snap never leaves the bounds. The smallest and the largest value of a set are bounds; both also
// are if there are only two values, or if each value occurs in at least 2 % of the rows and in at
// least 5, and those of a lattice begin at 0 or its first step, or are as far below 0 as above, as
// in a scale from 1 to 5. Else the smallest or largest value is a bound if it is an atom, on a
// lattice of twice the rows of the value next to it: a count that grows goes on. A lattice has its
// smallest point that is not negative as a bound if its values are close to 0: the smallest is less
// than two steps or at most the spread away.
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
  void FindBounds(absl::Span<const Run> runs, int64_t rows, double spread);
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
