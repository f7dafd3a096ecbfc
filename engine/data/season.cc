#include "engine/data/season.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "engine/data/category_dictionary.h"
#include "engine/data/period_search.h"

namespace chorale {
namespace {

constexpr size_t kLeastRows = 16;
constexpr size_t kMostLevels = 31;  // a numeric column of more different numbers acts linearly

struct RunningIndex {
  Season season;              // without its period
  std::vector<size_t> order;  // of the context's rows by it
};

double Median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<int64_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  if (numbers.size() % 2 == 1) return *middle;
  return (*std::max_element(numbers.begin(), middle) + *middle) / 2;
}

// False for a column that cannot be a running index: what a sort would tell, without one. No gap of
// an index is below 1/8 of the average one, so of buckets of half of that, none has two numbers.
bool MayBeIndex(const std::vector<double>& numbers) {
  if (absl::c_any_of(numbers, [](double x) { return std::isnan(x); })) return false;
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

// A column's step and first number, if it counts its rows.
std::optional<Season> AsIndex(const std::vector<double>& numbers) {
  if (!MayBeIndex(numbers)) return std::nullopt;
  std::vector<double> sorted = numbers;
  absl::c_sort(sorted);
  std::vector<double> gaps;
  gaps.reserve(sorted.size() - 1);
  for (size_t i = 1; i < sorted.size(); ++i) {
    gaps.push_back(sorted[i] - sorted[i - 1]);
  }
  const double step = Median(gaps);
  const double range = sorted.back() - sorted.front();
  if (!(range / step <= kMostStepsPerRow * static_cast<double>(sorted.size())) ||
      absl::c_any_of(gaps, [&](double gap) { return gap < 0.5 * step; })) {
    return std::nullopt;
  }
  const auto even = absl::c_count_if(gaps, [&](double gap) { return gap <= 1.5 * step; });
  if (static_cast<double>(even) / static_cast<double>(gaps.size()) < 0.9) return std::nullopt;
  Season season;
  season.first = sorted.front();
  season.step = step;
  return season;
}

std::optional<RunningIndex> FindIndex(const Dataset& context) {
  if (context.y.size() < kLeastRows) return std::nullopt;
  for (size_t i = 0; i < context.features.columns.size(); ++i) {
    const Column& column = context.features.columns[i];
    if (column.type != ColumnType::kNumeric) continue;
    std::optional<Season> season = AsIndex(column.numbers);
    if (!season.has_value()) continue;
    season->column = static_cast<int64_t>(i);
    RunningIndex index{*season, std::vector<size_t>(column.numbers.size())};
    absl::c_iota(index.order, 0);
    absl::c_sort(index.order,
                 [&](size_t a, size_t b) { return column.numbers[a] < column.numbers[b]; });
    return index;
  }
  return std::nullopt;
}

using Regressors = std::vector<std::vector<double>>;  // columns [n]

// The cells of these rows; categories as indices into the context's dictionary, NaN where missing.
std::vector<double> CellsOf(const Column& column, absl::Span<const size_t> rows) {
  std::vector<double> cells;
  cells.reserve(rows.size());
  if (column.type == ColumnType::kNumeric) {
    for (const size_t row : rows) cells.push_back(column.numbers[row]);
    return cells;
  }
  const CategoryDictionary dictionary = CanonicalDictionary(column);
  for (const size_t row : rows) {
    const int32_t code = column.codes[row];
    cells.push_back(code == kMissingCode ? std::numeric_limits<double>::quiet_NaN()
                                         : dictionary.renumber[code]);
  }
  return cells;
}

// A column of many numbers: centred, relative to the largest, and where it is missing.
void AddLinear(const std::vector<double>& cells, Regressors* regressors) {
  double size = 0;
  for (const double cell : cells) size = std::max(size, std::isnan(cell) ? 0 : std::abs(cell));
  double mean = 0;
  double count = 0;
  for (const double cell : cells) {
    if (std::isnan(cell)) continue;
    mean += cell / size;
    count += 1;
  }
  mean /= count;
  std::vector<double> centred;
  std::vector<double> missing;
  for (const double cell : cells) {
    centred.push_back(std::isnan(cell) ? 0 : cell / size - mean);
    missing.push_back(std::isnan(cell) ? 1 : 0);
  }
  regressors->push_back(std::move(centred));
  regressors->push_back(std::move(missing));
}

// What stands for another column: its values one by one, or itself; nothing where all is missing.
void AddRegressors(const Column& column, absl::Span<const size_t> rows, Regressors* regressors) {
  const std::vector<double> cells = CellsOf(column, rows);
  std::vector<double> values = cells;
  values.erase(std::remove_if(values.begin(), values.end(), [](double x) { return std::isnan(x); }),
               values.end());
  absl::c_sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (column.type == ColumnType::kNumeric && values.size() > kMostLevels) {
    return AddLinear(cells, regressors);
  }
  for (const double value : values) {
    if (regressors->size() > kMostRegressors) return;  // too many already
    std::vector<double> is_value;
    is_value.reserve(cells.size());
    for (const double cell : cells) is_value.push_back(cell == value ? 1 : 0);
    regressors->push_back(std::move(is_value));
  }
}

}  // namespace

std::optional<Season> RestoreSeason(const Dataset& context, const KnownSeason& known) {
  if (known.column < 0 || known.column >= static_cast<int64_t>(context.features.columns.size())) {
    return std::nullopt;
  }
  const Column& column = context.features.columns[known.column];
  if (column.type != ColumnType::kNumeric) return std::nullopt;
  std::optional<Season> season = AsIndex(column.numbers);
  if (!season.has_value()) return std::nullopt;
  season->column = known.column;
  season->period = known.period;
  return season;
}

double Season::Phase(double x) const {
  constexpr double kBeyondRounding = 1e-6;
  const double phase = std::fmod((x - first) / step + kBeyondRounding, period);
  return phase < 0 ? phase + period : phase;
}

std::optional<Season> FindSeason(const Dataset& context) {
  const std::optional<RunningIndex> index = FindIndex(context);
  if (!index.has_value()) return std::nullopt;
  Season season = index->season;
  const size_t window = std::min<size_t>(index->order.size(), kSeasonWindow);
  const auto rows = absl::MakeConstSpan(index->order).last(window);
  Regressors others;
  for (size_t i = 0; i < context.features.columns.size(); ++i) {
    if (static_cast<int64_t>(i) == season.column) continue;
    AddRegressors(context.features.columns[i], rows, &others);
    if (others.size() > kMostRegressors) return std::nullopt;
  }
  const std::vector<double>& numbers = context.features.columns[season.column].numbers;
  std::vector<double> t;
  std::vector<double> y;
  for (const size_t row : rows) {
    t.push_back((numbers[row] - season.first) / season.step);
    y.push_back(context.y[row]);
  }
  const std::optional<FoundPeriod> found = FindPeriod(t, y, others);
  if (!found.has_value() || found->chance > kSeasonLevel) return std::nullopt;
  season.period = found->period;
  return season;
}

}  // namespace chorale
