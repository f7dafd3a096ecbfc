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

// The support of a target whose context, of at least 10 rows, repeats its values:
//
//   lattice   All values lie on a lattice of decimal numbers: a first value and whole multiples of
//   a
//             step, the largest for which that holds. At least half of the rows beside those of the
//             most frequent value share theirs with another row. The step is 1, as of counts and
//             years, or at least a tenth of the spread (Bulk::scale, engine/data/bulk.h).
//   set       Else at most 32 different values, and nine of ten of these rows share theirs.
//   atoms     Else each value of at least 5 % of the rows and at least 5 rows, 8 at most.
//
// Snap takes a number to the nearest point of the lattice or of the set. Of atoms it takes what is
// closer to the atom than half of the distance at which the next values lie: that which one in 20
// of the other values on that side are within. The smallest or largest value is a bound, beyond
// which Snap never goes, where it is an atom, or one of two values; of whole numbers without a
// negative one, 0 is a bound.
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
