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

// The maximum span of a running index, in steps per row.
inline constexpr double kMostStepsPerRow = 4;

// The result of the search for a season by a numeric column.
enum class IndexVerdict {
  kSeason,          // the target has a season by this column
  kNoPeriod,        // it counts time, but no period is significant
  kTooManyColumns,  // it counts time, but there are too many other columns
  kNotTried,        // other columns were tried as the index
  kTooFewRows,      // the context has fewer than 16
  kMissingCells,
  kRepeats,    // its numbers repeat in many rows, and within the series of any other column
  kFewValues,  // it has fewer than 16 distinct numbers
  kUneven,     // its numbers are neither evenly spaced nor integer multiples of a step apart
  kLongGaps,   // its numbers are steps apart, but span more than kMostStepsPerRow steps per row
};

// A sentence about "the column" for users, without a full stop.
absl::string_view SentenceOf(IndexVerdict verdict);

struct RunningIndex {
  int64_t column = 0;                // index of the feature
  std::optional<MonthCount> months;  // if it counts months: first and step are in months
  double first = 0;                  // its smallest number
  double step = 1;
  // The rows of each series in the order of the column. Rows with the same number are in any order.
  std::vector<std::vector<size_t>> series;
  std::vector<int64_t> told_by;  // the columns that identify the series; empty: a single series
};

struct RunningIndices {
  std::vector<RunningIndex> found;     // in the order in which to try them
  std::vector<IndexVerdict> verdicts;  // [columns]; kNotTried for running indices and categories
};

// A numeric column without missing cells in at least 16 rows is a running index if its numbers are
// distinct, or at least distinct within the series that other columns identify
// (engine/data/series_grouping.h), and are steps apart. Otherwise, up to one row in 20 may repeat
// the number of another row, in the table or else within its series, such as a duplicated row, or
// the repeated hour at the end of summer time: rows with the same number count as one. The step is
// the median gap if no gap is below half of it, and nine of ten gaps are at most 1.5 steps, or nine
// of ten are about an integer multiple k of it (within the smaller of k / 10 and 1/4), as in a
// series without weekends or some months. If more rows are absent, the step may be the lower
// quartile of the gaps, if no gap is below half of it, four of ten gaps are at most 1.5 steps, and
// nine of ten are about integer multiples of it. With either step, the series span at most
// kMostStepsPerRow steps per number. Gaps are taken within series, over all series. Dates that are
// one day of each month count months (engine/data/month_count.h).
//
// Returns the first two columns of distinct numbers, and, of the columns with repeated numbers, the
// column with most distinct numbers (at least 16; eight such columns are tried). The result does
// not depend on the order of rows or the numbering of categories. Takes O(rows) for each column, a
// sort for columns that may be an index, and O(rows) for each of up to 36 groupings for the eight
// columns.
RunningIndices FindRunningIndices(const Table& features);

// The column as a running index, as FindRunningIndices returns it; nullopt if it is not a running
// index.
std::optional<RunningIndex> RunningIndexOf(const Table& features, int64_t column);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_RUNNING_INDEX_H_
