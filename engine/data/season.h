// The season of a context: what is periodic in its target by a column that counts its rows. A model
// that hardly learns a period from a running index is told by a column where in its season a row
// is.
#ifndef CHORALE_ENGINE_DATA_SEASON_H_
#define CHORALE_ENGINE_DATA_SEASON_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "engine/data/table.h"

namespace chorale {

// The last rows by the running index, in which the period is sought.
inline constexpr int64_t kSeasonWindow = 1024;

struct Season {
  int64_t column = 0;  // of the features: the running index
  double first = 0;    // its smallest number
  double step = 1;     // its median gap
  double period = 1;   // in steps

  // Where in its season a row with this index is, in steps: mod((x - first) / step + 1e-6, period),
  // in [0, period]. NaN where x is, or is too far away to tell.
  double Phase(double x) const;
};

// The running index is the first numeric column, of at least 16 rows, that has no missing cell and
// whose numbers all differ and are about evenly spaced: no gap is below half of the median gap, and
// nine of ten are at most half above it, and all together at most kMostStepsPerRow a row. In its
// last kSeasonWindow rows a period is sought (engine/data/period_search.h) beside the other
// columns: the cells of each by value where it is categorical or has at most 31 numbers, else
// linearly. So what another column tells is no season here. Nothing if its chance is above
// kSeasonLevel.
//
// Does not depend on the order of the rows, nor on how categories are numbered. The formula is that
// of models/research/training/prior/phase_column.py; tests/golden/seasons.json holds both to it.
// Time: O(rows) for a numeric column that is far from even, a sort for one that is not; then, in
// the window, as FindPeriod says. REQUIRES: the context is valid (ValidateDataset).
std::optional<Season> FindSeason(const Dataset& context);

// What an earlier search in the same context found, so that it need not be repeated.
struct KnownSeason {
  int64_t column = -1;  // -1: there is none
  double period = 0;
};

// The same as FindSeason, from what it found; nothing where the column is no running index.
std::optional<Season> RestoreSeason(const Dataset& context, const KnownSeason& known);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_SEASON_H_
