#include "engine/data/season.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "engine/data/category_dictionary.h"
#include "engine/data/period_search.h"

namespace chorale {
namespace {

constexpr size_t kMostLevels = 31;  // numeric columns with more values are linear regressors

using Regressors = std::vector<std::vector<double>>;  // columns [n]

double StepsTo(double x, const std::optional<MonthCount>& months, double first, double step) {
  return ((months.has_value() ? months->At(x) : x) - first) / step;
}

// [columns]: empty for numeric columns.
std::vector<CategoryDictionary> DictionariesOf(const Table& features) {
  std::vector<CategoryDictionary> dictionaries(features.columns.size());
  for (size_t i = 0; i < dictionaries.size(); ++i) {
    const Column& column = features.columns[i];
    if (column.type == ColumnType::kCategorical) dictionaries[i] = CanonicalDictionary(column);
  }
  return dictionaries;
}

// The cells of these rows; categories as indices into the context's dictionary, NaN where missing.
std::vector<double> CellsOf(const Column& column, const CategoryDictionary& dictionary,
                            absl::Span<const size_t> rows) {
  std::vector<double> cells;
  cells.reserve(rows.size());
  if (column.type == ColumnType::kNumeric) {
    for (const size_t row : rows) cells.push_back(column.numbers[row]);
    return cells;
  }
  for (const size_t row : rows) {
    const int32_t code = column.codes[row];
    cells.push_back(code == kMissingCode ? std::numeric_limits<double>::quiet_NaN()
                                         : dictionary.renumber[code]);
  }
  return cells;
}

// Adds a column with many numbers as a linear regressor, divided by its largest magnitude and
// centred, and an indicator of its missing cells. `known` are the numbers in ascending order, so
// that the sum does not depend on the order of rows.
void AddLinear(const std::vector<double>& cells, const std::vector<double>& known,
               Regressors* regressors) {
  double size = 0;
  for (const double cell : cells) size = std::max(size, std::isnan(cell) ? 0 : std::abs(cell));
  double mean = 0;
  for (const double cell : known) mean += cell / size;
  mean /= static_cast<double>(known.size());
  std::vector<double> centred;
  std::vector<double> missing;
  for (const double cell : cells) {
    centred.push_back(std::isnan(cell) ? 0 : cell / size - mean);
    missing.push_back(std::isnan(cell) ? 1 : 0);
  }
  regressors->push_back(std::move(centred));
  regressors->push_back(std::move(missing));
}

// Adds the regressors of another column: an indicator for each value, or the column itself if it
// has many numbers. Adds nothing if all cells are missing.
void AddRegressors(const std::vector<double>& cells, ColumnType type, Regressors* regressors) {
  std::vector<double> known = cells;
  known.erase(std::remove_if(known.begin(), known.end(), [](double x) { return std::isnan(x); }),
              known.end());
  absl::c_sort(known);
  std::vector<double> values = known;
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (type == ColumnType::kNumeric && values.size() > kMostLevels) {
    return AddLinear(cells, known, regressors);
  }
  for (const double value : values) {
    if (regressors->size() > kMostRegressors) return;  // too many regressors
    std::vector<double> is_value;
    is_value.reserve(cells.size());
    for (const double cell : cells) is_value.push_back(cell == value ? 1 : 0);
    regressors->push_back(std::move(is_value));
  }
}

// The rows of each series in which a period is sought, in the order of the series.
std::vector<absl::Span<const size_t>> WindowsOf(const RunningIndex& index,
                                                absl::Span<const double> numbers) {
  constexpr size_t kLeastWindow = 64;
  const auto count = static_cast<double>(index.series.size());
  const auto shared = static_cast<size_t>(static_cast<double>(kSeasonWindow) / std::sqrt(count));
  const size_t rows = std::max(kLeastWindow, shared);
  constexpr auto kWindow = static_cast<size_t>(kSeasonWindow);
  const size_t most = kWindow * kWindow / (rows * rows);
  std::vector<size_t> longest(index.series.size());
  absl::c_iota(longest, 0);
  std::stable_sort(longest.begin(), longest.end(), [&](size_t a, size_t b) {
    return index.series[a].size() > index.series[b].size();
  });
  longest.resize(std::min(longest.size(), most));
  absl::c_sort(longest);
  std::vector<absl::Span<const size_t>> windows;
  for (const size_t place : longest) {
    const auto all = absl::MakeConstSpan(index.series[place]);
    size_t first = all.size() - std::min(all.size(), rows);
    while (first > 0 && numbers[all[first - 1]] == numbers[all[first]]) --first;
    windows.push_back(all.subspan(first));
  }
  return windows;
}

// The start of each run of equal numbers in rows of ascending numbers, and the end of the last run.
std::vector<size_t> PlacesOf(absl::Span<const size_t> rows, absl::Span<const double> numbers) {
  std::vector<size_t> starts;
  starts.reserve(rows.size() + 1);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || numbers[rows[i]] != numbers[rows[i - 1]]) starts.push_back(i);
  }
  starts.push_back(rows.size());
  return starts;
}

// The mean over each run, independent of the order of its rows.
std::vector<double> MeansAt(const std::vector<size_t>& places, std::vector<double> column) {
  if (places.size() == column.size() + 1) return column;
  std::vector<double> means;
  means.reserve(places.size() - 1);
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    const auto here = absl::MakeSpan(column).subspan(places[i], places[i + 1] - places[i]);
    absl::c_sort(here);
    double mean = 0;  // divided first: the sum may exceed float64
    for (const double number : here) mean += number / static_cast<double>(here.size());
    means.push_back(mean);
  }
  return means;
}

// The target and the regressors of a series; nullopt if there are too many columns.
std::optional<SeriesRows> SeriesOf(const Dataset& context, const RunningIndex& index,
                                   const std::vector<CategoryDictionary>& dictionaries,
                                   absl::Span<const size_t> rows) {
  SeriesRows series;
  for (size_t i = 0; i < context.features.columns.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    if (place == index.column || absl::c_linear_search(index.told_by, place)) continue;
    const Column& column = context.features.columns[i];
    AddRegressors(CellsOf(column, dictionaries[i], rows), column.type, &series.others);
    if (series.others.size() > kMostRegressors) return std::nullopt;
  }
  const std::vector<double>& numbers = context.features.columns[index.column].numbers;
  const std::vector<size_t> places = PlacesOf(rows, numbers);
  std::vector<double> y;
  y.reserve(rows.size());
  for (const size_t row : rows) y.push_back(context.y[row]);
  series.y = MeansAt(places, std::move(y));
  for (std::vector<double>& column : series.others) column = MeansAt(places, std::move(column));
  series.t.reserve(series.y.size());
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    series.t.push_back(StepsTo(numbers[rows[places[i]]], index.months, index.first, index.step));
  }
  return series;
}

// Returns a season by this index with a probability by chance of at most kSeasonLevel / tried.
std::optional<Season> SeasonBy(const RunningIndex& index, const Dataset& context, double tried,
                               IndexVerdict* verdict) {
  const std::vector<CategoryDictionary> dictionaries = DictionariesOf(context.features);
  std::vector<SeriesRows> series;
  const std::vector<double>& numbers = context.features.columns[index.column].numbers;
  for (const absl::Span<const size_t> rows : WindowsOf(index, numbers)) {
    std::optional<SeriesRows> one = SeriesOf(context, index, dictionaries, rows);
    if (one.has_value()) series.push_back(*std::move(one));
  }
  *verdict = series.empty() ? IndexVerdict::kTooManyColumns : IndexVerdict::kNoPeriod;
  const std::optional<FoundPeriod> found = FindPeriod(std::move(series));
  if (!found.has_value() || tried * found->chance > kSeasonLevel) return std::nullopt;
  *verdict = IndexVerdict::kSeason;
  return Season{index.column, index.first, index.step, found->period, index.months};
}

}  // namespace

std::optional<Season> RestoreSeason(const Dataset& context, const KnownSeason& known) {
  if (known.column < 0 || known.column >= static_cast<int64_t>(context.features.columns.size())) {
    return std::nullopt;
  }
  const std::optional<RunningIndex> index = RunningIndexOf(context.features, known.column);
  if (!index.has_value()) return std::nullopt;
  return Season{known.column, index->first, index->step, known.period, index->months};
}

double Season::Phase(double x) const {
  constexpr double kBeyondRounding = 1e-6;
  const double phase = std::fmod(StepsTo(x, months, first, step) + kBeyondRounding, period);
  return phase < 0 ? phase + period : phase;
}

Column PhasesOf(const Column& index, const Season& season) {
  Column phases;
  phases.name = index.name;
  phases.numbers.reserve(index.numbers.size());
  for (const double x : index.numbers) phases.numbers.push_back(season.Phase(x));
  return phases;
}

SeasonSearch FindSeason(const Dataset& context) {
  RunningIndices indices = FindRunningIndices(context.features);
  SeasonSearch search;
  search.verdicts = std::move(indices.verdicts);
  double tried = 0;
  for (const RunningIndex& index : indices.found) {
    tried += 1;
    search.season = SeasonBy(index, context, tried, &search.verdicts[index.column]);
    if (search.season.has_value()) break;
  }
  return search;
}

}  // namespace chorale
