// Finds the columns that identify the series of a table, such as the shop of each row.
#ifndef CHORALE_ENGINE_DATA_SERIES_GROUPING_H_
#define CHORALE_ENGINE_DATA_SERIES_GROUPING_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "engine/data/table.h"

namespace chorale {

// The index of the value of each cell among the values of its column, and the number of values.
struct Codes {
  std::vector<size_t> codes;  // [rows], each value of [0, count) occurs
  size_t count = 0;
};

// Values are ascending, categories by their bytes. A missing cell has a value of its own, the last.
Codes CodesOf(const Column& column);

// The number of values of the column, a missing cell included. The count may stop at `enough`.
size_t CountValues(const Column& column, size_t enough = std::numeric_limits<size_t>::max());

// A way of dividing the rows of a table into series.
struct SeriesGrouping {
  std::vector<int64_t> columns;  // indices of one or two features
  Codes series;
};

// The minimum average number of rows of a series.
inline constexpr size_t kLeastSeriesRows = 8;

// Candidates for the columns that identify the series: at most 8 columns with few values, numeric
// or categorical, in ascending order of their number of values; then pairs of these columns.
std::vector<SeriesGrouping> SeriesGroupings(const Table& features);

// Whether at most `most` rows repeat a value of an earlier row of the same series.
bool RepeatAtMost(size_t most, const Codes& values, const Codes& series);

// The rows of each series, in ascending order of `numbers`.
std::vector<std::vector<size_t>> SplitBySeries(const Codes& series,
                                               absl::Span<const double> numbers);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_SERIES_GROUPING_H_
