// The season of a context: what is periodic in its target by a column that counts time. A model
// that hardly learns a period from a running index is told by a column where in its season a row
// is.
#ifndef CHORALE_ENGINE_DATA_SEASON_H_
#define CHORALE_ENGINE_DATA_SEASON_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/data/month_count.h"
#include "engine/data/running_index.h"
#include "engine/data/table.h"

namespace chorale {

// The last rows of a series by the running index, in which the period is sought. Of G series the
// last kSeasonWindow / sqrt(G) rows of each, but at least 64, and as many of the longest as make no
// more than kSeasonWindow^2 rows times rows of a series; and those at the place of the first row.
inline constexpr int64_t kSeasonWindow = 1024;

struct Season {
  int64_t column = 0;  // of the features: the running index
  double first = 0;    // its smallest number
  double step = 1;
  double period = 1;                      // in steps
  std::optional<MonthCount> months = {};  // if it counts these: first and step are months, too

  // Where in its season a row with this index is, in steps: mod((x - first) / step + 1e-6, period),
  // in [0, period], with its months in place of x where these count. NaN where x is, or is too far
  // away to tell.
  double Phase(double x) const;
};

struct SeasonSearch {
  std::optional<Season> season;
  std::vector<IndexVerdict> verdicts;  // [columns of the features]; of categories: kNotTried
};

// For each running index (engine/data/running_index.h) in turn, a period is sought in the last rows
// of its series (engine/data/period_search.h), beside the other columns but those that tell the
// series: the cells of each by value where it is categorical or has at most 31 numbers in these
// rows, else linearly. Rows at one place of a series are one, with the means of y and of what
// stands for these columns. So what another column tells is no season here. The first of which the
// chance, times the number of columns tried, is at most kSeasonLevel is the season.
//
// Does not depend on the order of the rows, nor on how categories are numbered. The formula is that
// of models/research/training/prior/phase_column.py; tests/golden/seasons.json holds both to it.
// Time: that of FindRunningIndices, and, at most three times, that of FindPeriod for one series of
// kSeasonWindow rows. REQUIRES: the context is valid (ValidateDataset).
SeasonSearch FindSeason(const Dataset& context);

// What an earlier search in the same context found, so that it need not be repeated.
struct KnownSeason {
  int64_t column = -1;  // -1: there is none
  double period = 0;
};

// The same as FindSeason, from what it found; nothing where the column is no running index.
std::optional<Season> RestoreSeason(const Dataset& context, const KnownSeason& known);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_SEASON_H_
