// A running index: a numeric column that counts time, such as a date or the number of a month.
#ifndef CHORALE_ENGINE_DATA_RUNNING_INDEX_H_
#define CHORALE_ENGINE_DATA_RUNNING_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/data/month_count.h"
#include "engine/data/table.h"

namespace chorale {

// Where the numbers of a column span more steps a row, it is no running index.
inline constexpr double kMostStepsPerRow = 4;

// What the search for a season made of a numeric column.
enum class IndexVerdict {
  kSeason,          // the target has a season by it
  kNoPeriod,        // it counts time, but no period is beyond chance
  kTooManyColumns,  // it counts time, but there are too many other columns to tell
  kNotTried,        // other columns were tried as the index
  kTooFewRows,      // the context has fewer than 16
  kMissingCells,
  kRepeats,    // its numbers repeat in many rows, and no column tells series in which they do not
  kFewValues,  // its numbers repeat, and there are fewer than 16
  kUneven,     // its numbers are not evenly spaced, nor whole steps apart
  kLongGaps,   // they would be, but span more than kMostStepsPerRow steps a row
};

// A sentence about "the column", for people, without a full stop.
absl::string_view SentenceOf(IndexVerdict verdict);

struct RunningIndex {
  int64_t column = 0;                // of the features
  std::optional<MonthCount> months;  // if it counts these: first and step are months, too
  double first = 0;                  // its smallest number
  double step = 1;
  // The rows of each, by the column. Rows of the same number, which are in any order, are at one
  // place of the series.
  std::vector<std::vector<size_t>> series;
  std::vector<int64_t> told_by;  // the columns that tell the series; none: it is one
};

struct RunningIndices {
  std::vector<RunningIndex> found;     // in the order in which to try them
  std::vector<IndexVerdict> verdicts;  // [columns]; of a running index and of categories: kNotTried
};

// A numeric column, without missing cells in at least 16 rows, is a running index if its numbers
// all differ, or at least differ within the series that other columns tell
// (engine/data/series_grouping.h), and are steps apart. Where neither is so, one row in 20 may have
// a number that another has, of the table or else within series, such as a row that is there twice,
// or the hour that comes twice at the end of summer time: rows at one place count as one. The step
// is the median gap: no gap is below half of it, all together are at most kMostStepsPerRow a place,
// and nine of ten are at most half above it, or nine of ten are about whole numbers k of it (within
// a tenth of k and a quarter), as where days, weekends or months are left out. Where so many are
// left out that this is not so, the step may be the lower quartile of the gaps, if four of ten are
// about one step, and nine of ten about whole numbers of it. Gaps are those within series, of all
// of them. Dates that are one day of each month count months (engine/data/month_count.h).
//
// Found are the first two columns of different numbers, and, of those that repeat theirs, the one
// with most different numbers (at least 16; eight such columns are looked at). Independent of the
// order of rows and of the numbers of categories. Time: O(rows) for each column, a sort for those
// that may be an index, and for the eight columns up to 36 groupings, O(rows) each.
RunningIndices FindRunningIndices(const Table& features);

// This column as a running index, as FindRunningIndices finds it; nothing if it is none.
std::optional<RunningIndex> RunningIndexOf(const Table& features, int64_t column);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_RUNNING_INDEX_H_
