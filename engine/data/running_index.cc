#include "engine/data/running_index.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "engine/data/series_grouping.h"

namespace chorale {
namespace {

constexpr size_t kLeastRows = 16;
constexpr size_t kLeastValues = 16;  // of a column with repeated values
constexpr size_t kMostRepeating = 8;
constexpr size_t kMostDistinct = 2;
constexpr double kMost = 0.9;   // of the gaps
constexpr double kOften = 0.4;  // of the gaps

double Median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<int64_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  if (numbers.size() % 2 == 1) return *middle;
  return (*std::max_element(numbers.begin(), middle) + *middle) / 2;
}

// Returns an element of `numbers`.
double LowerQuartile(std::vector<double> numbers) {
  const auto place = numbers.begin() + static_cast<int64_t>((numbers.size() - 1) / 4);
  std::nth_element(numbers.begin(), place, numbers.end());
  return *place;
}

// Gaps between consecutive distinct numbers of each series.
struct Gaps {
  std::vector<double> all;
  double smallest = 0;
  double spans = 0;  // sum over all series
  double places = 0;

  bool LeaveNoHalf(double step) const { return smallest >= 0.5 * step; }
  bool AreFew(double step) const { return spans / step <= kMostStepsPerRow * places; }
  template <typename Condition>
  double Share(Condition holds) const {
    return static_cast<double>(absl::c_count_if(all, holds)) / static_cast<double>(all.size());
  }
  bool AreWhole(double step) const {
    return kMost <= Share([&](double gap) {
             const double steps = gap / step;
             const double count = std::nearbyint(steps);
             return count >= 1 && std::abs(steps - count) <= std::min(0.1 * count, 0.25);
           });
  }
  bool AreEven(double step) const {
    return kMost <= Share([&](double gap) { return gap <= 1.5 * step; });
  }
  bool AreOftenOne(double step) const {
    return kOften <= Share([&](double gap) { return gap <= 1.5 * step; });
  }
};

Gaps GapsOf(absl::Span<const double> numbers, const std::vector<std::vector<size_t>>& series) {
  Gaps gaps;
  for (const std::vector<size_t>& rows : series) {
    for (size_t i = 1; i < rows.size(); ++i) {
      const double gap = numbers[rows[i]] - numbers[rows[i - 1]];
      if (gap != 0) gaps.all.push_back(gap);
    }
    gaps.spans += numbers[rows.back()] - numbers[rows.front()];
  }
  gaps.places = static_cast<double>(gaps.all.size() + series.size());
  if (!gaps.all.empty()) gaps.smallest = *absl::c_min_element(gaps.all);
  return gaps;
}

// Returns false if distinct numbers cannot be a running index, without a sort. No gap of an index
// is below 1/8 of the average gap, so no bucket of half of that width has two numbers.
bool MayBeIndex(const std::vector<double>& numbers) {
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const double range = *high - *low;
  if (range == 0 || !std::isfinite(range)) return false;
  const size_t buckets = 4 * static_cast<size_t>(kMostStepsPerRow) * numbers.size();
  std::vector<bool> taken(buckets + 1);
  return absl::c_all_of(numbers, [&, low = *low](double x) {
    const auto bucket = static_cast<size_t>((x - low) / range * static_cast<double>(buckets));
    if (taken[bucket]) return false;
    taken[bucket] = true;
    return true;
  });
}

using StepOrVerdict = std::variant<double, IndexVerdict>;

StepOrVerdict StepOf(const Gaps& gaps) {
  if (!(gaps.smallest > 0) || !std::isfinite(gaps.spans)) return IndexVerdict::kUneven;
  double step = Median(gaps.all);
  if (!gaps.LeaveNoHalf(step) || (!gaps.AreWhole(step) && !gaps.AreEven(step))) {
    step = LowerQuartile(gaps.all);
    if (!gaps.LeaveNoHalf(step) || !gaps.AreWhole(step) || !gaps.AreOftenOne(step)) {
      return IndexVerdict::kUneven;
    }
  }
  if (!gaps.AreFew(step)) return IndexVerdict::kLongGaps;
  return step;
}

using IndexOrVerdict = std::variant<RunningIndex, IndexVerdict>;

IndexOrVerdict AsIndex(const std::vector<double>& numbers, RunningIndex index) {
  const StepOrVerdict step = StepOf(GapsOf(numbers, index.series));
  if (const auto* verdict = std::get_if<IndexVerdict>(&step)) return *verdict;
  index.first = *absl::c_min_element(numbers);
  index.step = std::get<double>(step);
  return index;
}

IndexOrVerdict OfOneSeries(const std::vector<double>& numbers, int64_t column) {
  std::vector<size_t> rows(numbers.size());
  absl::c_iota(rows, 0);
  absl::c_sort(rows, [&](size_t a, size_t b) { return numbers[a] < numbers[b]; });
  RunningIndex index;
  index.column = column;
  index.series.push_back(std::move(rows));
  return AsIndex(numbers, std::move(index));
}

// Uses the first grouping into series in which at most `repeats` numbers occur in an earlier row of
// their series.
IndexOrVerdict OfSeveralSeries(const std::vector<double>& numbers, int64_t column,
                               const Codes& values, const std::vector<SeriesGrouping>& groupings,
                               size_t repeats) {
  for (const SeriesGrouping& grouping : groupings) {
    if (absl::c_linear_search(grouping.columns, column) ||
        !RepeatAtMost(repeats, values, grouping.series)) {
      continue;
    }
    RunningIndex index;
    index.column = column;
    index.series = SplitBySeries(grouping.series, numbers);
    index.told_by = grouping.columns;
    return AsIndex(numbers, std::move(index));
  }
  return IndexVerdict::kRepeats;
}

// Handles distinct numbers.
IndexOrVerdict OfDistinct(const std::vector<double>& numbers, int64_t column) {
  return MayBeIndex(numbers) ? OfOneSeries(numbers, column) : IndexVerdict::kUneven;
}

// Handles repeated numbers, if they are distinct within series or repeat in few rows.
IndexOrVerdict OfRepeating(const std::vector<double>& numbers, int64_t column, const Codes& values,
                           const std::vector<SeriesGrouping>& groupings) {
  constexpr size_t kOneRowIn = 20;
  IndexOrVerdict index = OfSeveralSeries(numbers, column, values, groupings, 0);
  if (std::holds_alternative<RunningIndex>(index)) return index;
  const size_t few = numbers.size() / kOneRowIn;
  if (numbers.size() - values.count <= few) return OfOneSeries(numbers, column);
  return OfSeveralSeries(numbers, column, values, groupings, few);
}

// The numbers of a column, converted to months if it counts months.
std::vector<double> CountedBy(const Column& column, const std::optional<MonthCount>& months) {
  std::vector<double> numbers = column.numbers;
  if (months.has_value()) {
    for (double& number : numbers) number = months->At(number);
  }
  return numbers;
}

IndexOrVerdict WithMonths(IndexOrVerdict index, const std::optional<MonthCount>& months) {
  if (auto* found = std::get_if<RunningIndex>(&index)) found->months = months;
  return index;
}

IndexOrVerdict OfDistinct(const Table& features, int64_t column) {
  const std::optional<MonthCount> months = MonthCount::Of(features.columns[column]);
  return WithMonths(OfDistinct(CountedBy(features.columns[column], months), column), months);
}

IndexOrVerdict OfRepeating(const Table& features, int64_t column,
                           const std::vector<SeriesGrouping>& groupings) {
  const Column& cells = features.columns[column];
  const std::optional<MonthCount> months = MonthCount::Of(cells);
  return WithMonths(OfRepeating(CountedBy(cells, months), column, CodesOf(cells), groupings),
                    months);
}

bool HasMissing(const Column& column) {
  return absl::c_any_of(column.numbers, [](double x) { return std::isnan(x); });
}

}  // namespace

absl::string_view SentenceOf(IndexVerdict verdict) {
  switch (verdict) {
    case IndexVerdict::kSeason:
      return "the target has a season by the column";
    case IndexVerdict::kNoPeriod:
      return "the target has no statistically significant season by the column";
    case IndexVerdict::kTooManyColumns:
      return "the table has too many other columns to decide whether the target has a season by "
             "the column";
    case IndexVerdict::kNotTried:
      return "the server sought no season by the column, because other columns count time as well";
    case IndexVerdict::kTooFewRows:
      return "the server sought no season by the column, because the table has fewer than 16 rows";
    case IndexVerdict::kMissingCells:
      return "the server sought no season by the column, because it has missing cells";
    case IndexVerdict::kRepeats:
      return "the server sought no season by the column, because its values repeat in more than "
             "one row of 20: if the table contains several series, add a column that identifies "
             "the series of each row";
    case IndexVerdict::kFewValues:
      return "the server sought no season by the column, because it has fewer than 16 distinct "
             "values";
    case IndexVerdict::kUneven:
      return "the server sought no season by the column, because its values are neither evenly "
             "spaced nor multiples of a step apart";
    case IndexVerdict::kLongGaps:
      return "the server sought no season by the column, because its values span more than 4 steps "
             "per row";
  }
  return "";
}

RunningIndices FindRunningIndices(const Table& features) {
  const auto columns = static_cast<int64_t>(features.columns.size());
  RunningIndices indices;
  indices.verdicts.assign(columns, IndexVerdict::kNotTried);
  struct Repeating {
    int64_t column;
    size_t values;
  };
  std::vector<Repeating> repeating;
  const auto keep = [&](int64_t column, IndexOrVerdict index) {
    if (const auto* verdict = std::get_if<IndexVerdict>(&index)) {
      indices.verdicts[column] = *verdict;
      return false;
    }
    indices.found.push_back(std::get<RunningIndex>(std::move(index)));
    return true;
  };
  for (int64_t i = 0; i < columns; ++i) {
    const Column& column = features.columns[i];
    IndexVerdict& verdict = indices.verdicts[i];
    if (column.type != ColumnType::kNumeric) continue;
    if (column.numbers.size() < kLeastRows) {
      verdict = IndexVerdict::kTooFewRows;
    } else if (HasMissing(column)) {
      verdict = IndexVerdict::kMissingCells;
    } else if (const size_t values = CountValues(column); values == column.numbers.size()) {
      if (indices.found.size() < kMostDistinct) keep(i, OfDistinct(features, i));
    } else if (values < kLeastValues) {
      verdict = IndexVerdict::kFewValues;
    } else {
      repeating.push_back({i, values});
    }
  }
  if (repeating.empty()) return indices;
  std::stable_sort(repeating.begin(), repeating.end(),
                   [](const Repeating& a, const Repeating& b) { return a.values > b.values; });
  if (repeating.size() > kMostRepeating) repeating.resize(kMostRepeating);
  const std::vector<SeriesGrouping> groupings = SeriesGroupings(features);
  for (const Repeating& each : repeating) {
    if (keep(each.column, OfRepeating(features, each.column, groupings))) break;
  }
  return indices;
}

std::optional<RunningIndex> RunningIndexOf(const Table& features, int64_t column) {
  const Column& numbers = features.columns[column];
  if (numbers.type != ColumnType::kNumeric || numbers.numbers.size() < kLeastRows ||
      HasMissing(numbers)) {
    return std::nullopt;
  }
  const size_t values = CountValues(numbers);
  if (values < kLeastValues) return std::nullopt;
  IndexOrVerdict index = values == numbers.numbers.size()
                             ? OfDistinct(features, column)
                             : OfRepeating(features, column, SeriesGroupings(features));
  if (std::holds_alternative<IndexVerdict>(index)) return std::nullopt;
  return std::get<RunningIndex>(std::move(index));
}

}  // namespace chorale
