#include "engine/data/target_support.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/data/bulk.h"

namespace chorale {
namespace {

constexpr int64_t kFewestRows = 10;
constexpr int64_t kMostDecimals = 6;
constexpr double kExact = 9007199254740992;  // 2^53: integers up to it are exact
constexpr double kCoarse = 0.1;              // of the spread
constexpr size_t kMostOfSet = 32;
constexpr int64_t kLeastRowsOfSet = 3;
constexpr size_t kMostAtoms = 8;

bool IsAtom(int64_t rows, int64_t all) { return rows >= 5 && 20 * rows >= all; }

// Whether all values are integers after multiplication by `scale`, as decimals rounded to float64.
bool AreWhole(absl::Span<const double> values, double scale) {
  return absl::c_all_of(values, [&](double value) {
    const double whole = std::nearbyint(value * scale);
    return std::abs(whole) < kExact && whole / scale == value;
  });
}

// The distance that an atom of `atom_rows` rows covers on a side where the other values have these
// distances, in ascending order.
double ReachTo(absl::Span<const double> distances, int64_t atom_rows) {
  if (distances.empty()) return std::numeric_limits<double>::infinity();
  constexpr double kShare = 2e-3;
  const double next = distances[distances.size() / 20];
  const double largest = distances.back();
  double all = 0;  // of shares: the sum may exceed float64
  for (const double distance : distances) all += distance / largest;
  double sum = 0;
  double reach = 0;
  for (size_t i = 0; i < distances.size(); ++i) {
    sum += distances[i] / largest;
    if (!(sum <= kShare * all) || 2 * static_cast<int64_t>(i + 1) > atom_rows) break;
    reach = distances[i];
  }
  return reach >= next ? reach : next / 2;
}

}  // namespace

TargetSupport TargetSupport::Of(absl::Span<const double> values) {
  TargetSupport support;
  const auto rows = static_cast<int64_t>(values.size());
  if (rows < kFewestRows) return support;
  std::vector<double> sorted;
  sorted.reserve(values.size());
  for (const double value : values) sorted.push_back(value + 0.0);  // -0 becomes 0
  absl::c_sort(sorted);
  std::vector<Run> runs;
  for (const double value : sorted) {
    if (runs.empty() || runs.back().value != value) runs.push_back({value, 0});
    ++runs.back().rows;
  }
  if (runs.size() == 1) return support;  // the model predicts this value itself
  int64_t shared = 0;                    // rows that share their value
  int64_t most = 0;
  int64_t least = rows;
  for (const Run& run : runs) {
    shared += run.rows > 1 ? run.rows : 0;
    most = std::max(most, run.rows);
    least = std::min(least, run.rows);
  }
  const int64_t beside_shared = shared - (most > 1 ? most : 0);
  const double spread = Bulk::Of(values).scale();
  const bool is_lattice = 2 * beside_shared >= rows - most && support.FindLattice(runs, spread);
  const auto size = static_cast<double>(runs.size());
  if (runs.size() <= kMostOfSet && least >= kLeastRowsOfSet &&
      (!is_lattice || support.PointsOf(runs) > 2 * size)) {
    support.kind_ = Kind::kSet;
    for (const Run& run : runs) support.set_.push_back(run.value);
  } else if (is_lattice) {
    support.kind_ = Kind::kLattice;
  } else {
    support.FindAtoms(runs, rows);
    if (support.atoms_.empty()) return support;
    support.kind_ = Kind::kAtoms;
  }
  support.FindBounds(runs, rows, spread);
  support.description_ = support.Describe();
  return support;
}

bool TargetSupport::FindLattice(absl::Span<const Run> runs, double spread) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const Run& run : runs) values.push_back(run.value);
  scale_ = 1;
  for (int64_t decimals = 0; !AreWhole(values, scale_); ++decimals) {
    if (decimals == kMostDecimals) return false;
    scale_ *= 10;
  }
  first_ = std::nearbyint(values.front() * scale_);
  int64_t step = 0;
  for (const double value : values) {
    step = std::gcd(step, static_cast<int64_t>(std::nearbyint(value * scale_) - first_));
  }
  step_ = static_cast<double>(step);
  return step_ == scale_ || std::isinf(spread) || step_ / scale_ >= kCoarse * spread;
}

void TargetSupport::FindAtoms(absl::Span<const Run> runs, int64_t rows) {
  // If all numbers are rounded, a few occur in 5 % of the rows by chance.
  const auto stands_out = [&](size_t place) {
    constexpr size_t kNear = 10;
    constexpr int64_t kTimes = 3;
    const size_t first = place - std::min(place, kNear);
    std::vector<int64_t> near;
    for (const Run& run : runs.subspan(first, place + kNear + 1 - first)) near.push_back(run.rows);
    const auto middle = near.begin() + static_cast<int64_t>(near.size() / 2);
    std::nth_element(near.begin(), middle, near.end());
    return runs[place].rows >= kTimes * *middle;
  };
  std::vector<Run> frequent;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (IsAtom(runs[i].rows, rows) && stands_out(i)) frequent.push_back(runs[i]);
  }
  if (frequent.size() > kMostAtoms) frequent.clear();
  for (const Run& run : frequent) {
    std::vector<double> below;
    std::vector<double> above;
    for (const Run& other : runs) {
      if (other.value == run.value) continue;
      std::vector<double>& side = other.value < run.value ? below : above;
      side.insert(side.end(), other.rows, std::abs(other.value - run.value));
    }
    absl::c_sort(below);
    absl::c_sort(above);
    atoms_.push_back({run.value, ReachTo(below, run.rows), ReachTo(above, run.rows)});
  }
}

double TargetSupport::PointsOf(absl::Span<const Run> runs) const {
  return (runs.back().value - runs.front().value) * scale_ / step_ + 1;
}

void TargetSupport::FindBounds(absl::Span<const Run> runs, int64_t rows, double spread) {
  const Run& first = runs.front();
  const Run& last = runs.back();
  const bool lattice = kind_ == Kind::kLattice;
  const double step = step_ / scale_;
  if (lattice && first.value >= 0 && (first.value < 2 * step || first.value <= spread)) {
    low_ = std::fmod(first_, step_) / scale_;
  }
  // A count that rises with time has about as many rows at its end as before it, and continues to
  // rise.
  const auto ends = [&](const Run& end, const Run& inner) {
    return IsAtom(end.rows, rows) && (!lattice || end.rows >= 2 * inner.rows);
  };
  const bool all_common = absl::c_all_of(
      runs, [rows](const Run& run) { return run.rows >= 5 && 50 * run.rows >= rows; });
  const bool from_zero_or_one = first.value >= 0 && first.value <= step;
  const bool symmetric = first.value == -last.value;
  const bool closed = kind_ == Kind::kSet || runs.size() == 2 ||
                      (all_common && (!lattice || from_zero_or_one || symmetric));
  if (closed || ends(first, runs[1])) low_ = first.value;
  if (closed || ends(last, runs[runs.size() - 2])) high_ = last.value;
}

double TargetSupport::Snap(double y) const {
  switch (kind_) {
    case Kind::kWholeLine:
      return y;
    case Kind::kLattice:
      y = LatticePoint(std::nearbyint(LatticeIndex(y)));
      break;
    case Kind::kSet: {
      const auto above = absl::c_lower_bound(set_, y);
      if (above == set_.end()) return set_.back();
      if (above == set_.begin()) return set_.front();
      return y - *(above - 1) <= *above - y ? *(above - 1) : *above;
    }
    case Kind::kAtoms:
      for (const Atom& atom : atoms_) {
        if (y >= atom.value - atom.below && y <= atom.value + atom.above) return atom.value;
      }
      break;
  }
  return std::clamp(y, low_, high_);
}

bool TargetSupport::Contains(double y) const {
  return kind_ == Kind::kAtoms ? std::clamp(y, low_, high_) == y : Snap(y) == y;
}

std::string TargetSupport::Describe() const {
  std::string text;
  switch (kind_) {
    case Kind::kWholeLine:
      break;
    case Kind::kLattice:
      text = step_ == scale_ && std::fmod(first_, scale_) == 0
                 ? "integers"
                 : absl::StrCat(first_ / scale_, " plus integer multiples of ", step_ / scale_);
      break;
    case Kind::kSet:
      text = absl::StrCat("the ", set_.size(), " values that the context contains");
      break;
    case Kind::kAtoms:
      text = absl::StrCat(
          absl::StrJoin(
              atoms_, ", ",
              [](std::string* out, const Atom& atom) { absl::StrAppend(out, atom.value); }),
          " if they are close to ", atoms_.size() == 1 ? "it" : "one of these values");
      break;
  }
  if (kind_ != Kind::kSet && std::isfinite(low_)) absl::StrAppend(&text, ", at least ", low_);
  if (kind_ != Kind::kSet && std::isfinite(high_)) absl::StrAppend(&text, ", at most ", high_);
  return text;
}

}  // namespace chorale
