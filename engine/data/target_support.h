// The values that a target can take, inferred from its context. A model predicts a continuous
// distribution, but counts are integers, and a target that is mostly zero is exactly zero.
#ifndef CHORALE_ENGINE_DATA_TARGET_SUPPORT_H_
#define CHORALE_ENGINE_DATA_TARGET_SUPPORT_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// The support of a target whose context has at least 10 rows and repeated values. The first kind
// that fits applies:
//
//   set       At most 32 distinct values, each in at least 3 rows, such as a list of prices, if no
//             lattice fits, or if more than half of the lattice's points from the smallest to the
//             largest value do not occur.
//   lattice   All values are a first value plus integer multiples of a step, with at most six
//             decimals; the step is the largest that fits. Without the rows of the most frequent
//             value, at least half of the rows share their value with another row. The step is 1,
//             as for counts and years, or at least a tenth of the spread (Bulk::scale,
//             engine/data/bulk.h).
//   atoms     Each value that occurs in at least 5 % of the rows, in at least 5 rows, and in at
//             least three times the median of the rows of the value itself and of the ten adjacent
//             values on each side. No atoms if there are more than 8.
//
// Snap maps a number to the nearest point of the lattice or the set. An atom replaces numbers
// within half of the distance d, within which one in 20 of the other values on that side are. If
// the other values have a long tail, the model is much less certain of the atom than that, and
// small values hardly contribute to a sum. So the atom replaces all numbers within the distance up
// to which the distances of the other values add up to 1/500 of all distances on that side, if at
// least one in 20 of these values is within it, and at most half as many values as the atom has
// rows.
//
// Results of Snap are within the bounds. The smallest and the largest value are both bounds of a
// set. They are also bounds if there are only two values, or if each value occurs in at least 2 %
// of the rows and in at least 5 rows; for a lattice, the smallest value must then also be between 0
// and one step, as in a scale from 1 to 5, or the negative of the largest value. Otherwise the
// smallest or largest value is a bound if it occurs in at least 5 % of the rows and in at least 5
// rows; on a lattice it must also have at least twice the rows of the adjacent value, because a
// count that grows continues to grow. A lattice has its smallest non-negative point as a bound if
// its smallest value is not negative and is less than two steps or at most the spread.
//
// Snap is monotone, so a quantile of the snapped values is the snapped quantile. Immutable and
// thread-safe.
class TargetSupport {
 public:
  // The whole line: Snap returns its argument.
  TargetSupport() = default;

  // Infers the support of finite values [n]. Takes the time of a sort.
  static TargetSupport Of(absl::Span<const double> values);

  double Snap(double y) const;

  // The numbers from `low` to `high`, which Snap maps to values from `least` to `greatest`.
  struct SnappedInterval {
    double low = 0;
    double high = 0;
    double least = 0;  // possible values, or infinite
    double greatest = 0;
  };
  // Returns the numbers that Snap maps to values of [lower, upper], of which each end may be
  // infinite; nullopt if it maps none to them. A single number that is not snapped has the interval
  // of itself. REQUIRES: lower <= upper.
  std::optional<SnappedInterval> Preimage(double lower, double upper) const;

  // Returns true if the target can take this value: it is on the lattice or in the set, and within
  // the bounds. Values beside atoms are possible.
  bool Contains(double y) const;

  bool is_whole_line() const { return kind_ == Kind::kWholeLine; }
  // The values to which Snap maps, for users: "integers, at least 0".
  const std::string& description() const { return description_; }

 private:
  enum class Kind { kWholeLine, kLattice, kSet, kAtoms };
  struct Atom {
    double value = 0;
    double below = 0;  // numbers within this distance below or above map to the atom
    double above = 0;
  };
  // A value and the number of its rows.
  struct Run {
    double value = 0;
    int64_t rows = 0;
  };

  bool FindLattice(absl::Span<const Run> runs, double spread);
  void FindAtoms(absl::Span<const Run> runs, int64_t rows);
  // The number of lattice points from the smallest to the largest value.
  double PointsOf(absl::Span<const Run> runs) const;
  void FindBounds(absl::Span<const Run> runs, int64_t rows, double spread);
  double LatticePoint(double index) const { return (first_ + index * step_) / scale_ + 0.0; }
  double LatticeIndex(double y) const { return (y * scale_ - first_) / step_; }
  std::optional<SnappedInterval> LatticePreimage(double lower, double upper) const;
  std::optional<SnappedInterval> SetPreimage(double lower, double upper) const;
  std::optional<SnappedInterval> AtomsPreimage(double lower, double upper) const;
  std::string Describe() const;

  Kind kind_ = Kind::kWholeLine;
  double low_ = -std::numeric_limits<double>::infinity();
  double high_ = std::numeric_limits<double>::infinity();
  double scale_ = 1;  // points are (first_ + k * step_) / scale_, with integer terms
  double first_ = 0;
  double step_ = 1;
  std::vector<double> set_;
  std::vector<Atom> atoms_;
  std::string description_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_TARGET_SUPPORT_H_
