// The season of a context: the period of its target in a column that counts time. A model hardly
// learns a period from a running index. An additional column provides the phase of each row in the
// season.
#ifndef CHORALE_ENGINE_DATA_SEASON_H_
#define CHORALE_ENGINE_DATA_SEASON_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/data/month_count.h"
#include "engine/data/running_index.h"
#include "engine/data/table.h"

namespace chorale {

// The period is sought in the last rows of a series by the running index. Of G series, the search
// uses the last kSeasonWindow / sqrt(G) rows of each, but at least 64, and all rows with the same
// number as the first of these. It uses the longest series, as many as keep their count, times the
// square of these rows, within kSeasonWindow^2.
inline constexpr int64_t kSeasonWindow = 1024;

struct Season {
  int64_t column = 0;  // index of the feature that is the running index
  double first = 0;    // its smallest number
  double step = 1;
  double period = 1;                      // in steps
  std::optional<MonthCount> months = {};  // if it counts months: first and step are in months

  // The position of a row with index x in the season, in steps: mod((x - first) / step + 1e-6,
  // period), in [0, period], with the months of x in place of x if the index counts months. NaN if
  // x is NaN or too far away for the calendar (MonthCount::At).
  double Phase(double x) const;
};

// The phase of each row, with the name of the column, which is the season's running index.
Column PhasesOf(const Column& index, const Season& season);

struct SeasonSearch {
  std::optional<Season> season;
  std::vector<IndexVerdict> verdicts;  // [features]; kNotTried for categories
};

// Searches for a period by each running index (engine/data/running_index.h) in turn, in the last
// rows of its series (engine/data/period_search.h). The regressors are the other columns, except
// those that identify the series: an indicator for each value if the column is categorical or has
// at most 31 distinct numbers in these rows, else the number itself. Rows of a series with the same
// index are one row, with the means of y and of the regressors. So an effect of another column is
// not reported as a season. The season is by the first index for which the probability by chance,
// times the number of columns tried, is at most kSeasonLevel.
//
// The result does not depend on the order of the rows or the numbering of categories. Uses the
// formula of models/research/training/prior/phase_column.py; tests/golden/seasons.json tests both
// implementations. Takes the time of FindRunningIndices and at most three times the time of
// FindPeriod for one series of kSeasonWindow rows. REQUIRES: the context is valid
// (ValidateDataset).
SeasonSearch FindSeason(const Dataset& context);

// The result of an earlier search in the same context, which makes a new search unnecessary.
struct KnownSeason {
  int64_t column = -1;  // -1: no season
  double period = 0;
};

// Returns the season of FindSeason from its earlier result; nullopt if the column is not a running
// index.
std::optional<Season> RestoreSeason(const Dataset& context, const KnownSeason& known);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_SEASON_H_
