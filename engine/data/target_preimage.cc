// Which numbers TargetSupport::Snap maps to an interval.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/algorithm/container.h"
#include "engine/data/target_support.h"

namespace chorale {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

std::optional<TargetSupport::SnappedInterval> TargetSupport::Preimage(double lower,
                                                                      double upper) const {
  switch (kind_) {
    case Kind::kWholeLine:
      break;
    case Kind::kLattice:
      return LatticePreimage(lower, upper);
    case Kind::kSet:
      return SetPreimage(lower, upper);
    case Kind::kAtoms:
      return AtomsPreimage(lower, upper);
  }
  return SnappedInterval{lower, upper, lower, upper};
}

// The ends of the interval are halfway between a point in it and the next point outside.
std::optional<TargetSupport::SnappedInterval> TargetSupport::LatticePreimage(double lower,
                                                                             double upper) const {
  lower = std::max(lower, low_);
  upper = std::min(upper, high_);
  if (lower > upper) return std::nullopt;
  SnappedInterval result{-kInfinite, kInfinite, lower, upper};
  if (std::isfinite(lower)) {
    double index = std::nearbyint(LatticeIndex(lower));
    if (LatticePoint(index) < lower) ++index;
    result.least = LatticePoint(index);
    if (result.least > low_) result.low = LatticePoint(index - 0.5);
  }
  if (std::isfinite(upper)) {
    double index = std::nearbyint(LatticeIndex(upper));
    if (LatticePoint(index) > upper) --index;
    result.greatest = LatticePoint(index);
    if (result.greatest < high_) result.high = LatticePoint(index + 0.5);
  }
  if (result.least > result.greatest) return std::nullopt;
  return result;
}

std::optional<TargetSupport::SnappedInterval> TargetSupport::SetPreimage(double lower,
                                                                         double upper) const {
  const auto first = absl::c_lower_bound(set_, lower);
  const auto end = absl::c_upper_bound(set_, upper);
  if (first >= end) return std::nullopt;
  // As Snap decides which of two values is nearer: a number in the middle belongs to the lower one.
  const auto middle = [](double a, double b) { return a + 0.5 * (b - a); };
  return SnappedInterval{first == set_.begin() ? -kInfinite : middle(*(first - 1), *first),
                         end == set_.end() ? kInfinite : middle(*(end - 1), *end), *first,
                         *(end - 1)};
}

// An end that is near an atom moves to the end of the atom's reach, on the side that leaves the
// atom in the interval if it is in [lower, upper].
std::optional<TargetSupport::SnappedInterval> TargetSupport::AtomsPreimage(double lower,
                                                                           double upper) const {
  if (lower > high_ || upper < low_) return std::nullopt;
  SnappedInterval result{lower, upper, lower, upper};
  double covered = -kInfinite;  // by the atoms before this one, which Snap prefers
  bool low_moved = false;
  bool high_moved = false;
  for (const Atom& atom : atoms_) {
    const double begin = std::max(atom.value - atom.below, covered);
    const double end = atom.value + atom.above;
    const auto reaches = [&](double y) { return y >= atom.value - atom.below && y <= end; };
    if (!low_moved && reaches(lower)) {
      low_moved = true;
      result.low = lower <= atom.value ? begin : end;
      result.least = lower <= atom.value ? atom.value : end;
    }
    if (!high_moved && reaches(upper)) {
      high_moved = true;
      result.high = upper >= atom.value ? end : begin;
      result.greatest = upper >= atom.value ? atom.value : begin;
    }
    covered = std::max(covered, end);
  }
  if (result.low > result.high) return std::nullopt;
  if (result.low == result.high) {
    const double snapped = Snap(result.low);
    if (!(snapped >= lower && snapped <= upper)) return std::nullopt;
  }
  if (lower <= low_) result.low = -kInfinite;
  if (upper >= high_) result.high = kInfinite;
  result.least = std::max(result.least, low_);
  result.greatest = std::min(result.greatest, high_);
  return result;
}

}  // namespace chorale
