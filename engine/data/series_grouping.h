// Which columns of a table tell the series that it holds, such as the store of each row.
#ifndef CHORALE_ENGINE_DATA_SERIES_GROUPING_H_
#define CHORALE_ENGINE_DATA_SERIES_GROUPING_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "engine/data/table.h"

namespace chorale {

// The place of each cell among the values of its column, and how many values there are.
struct Codes {
  std::vector<size_t> codes;  // [rows], each value of [0, count) occurs
  size_t count = 0;
};

// By ascending value, categories by their bytes; a missing cell is a value of its own, the last.
Codes CodesOf(const Column& column);

// How many values the column has, a missing one included; `enough` or more where there are as many.
size_t CountValues(const Column& column, size_t enough = std::numeric_limits<size_t>::max());

// A way of dividing the rows of a table into series.
struct SeriesGrouping {
  std::vector<int64_t> columns;  // one or two, of the features
  Codes series;
};

// Where series have fewer rows on average, they are none.
inline constexpr size_t kLeastSeriesRows = 8;

// What may tell the series: the columns of few values, numeric or not, those of fewest first (at
// most 8 of them), then two of these together.
std::vector<SeriesGrouping> SeriesGroupings(const Table& features);

// Whether at most so many rows have a value that another row of the same series has before them.
bool RepeatAtMost(size_t most, const Codes& values, const Codes& series);

// The rows of each series, by these numbers.
std::vector<std::vector<size_t>> SplitBySeries(const Codes& series,
                                               absl::Span<const double> numbers);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_SERIES_GROUPING_H_
