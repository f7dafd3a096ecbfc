#include "engine/data/series_grouping.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "engine/data/category_dictionary.h"

namespace chorale {
namespace {

constexpr size_t kMostColumns = 8;

Codes CodesOfNumbers(const std::vector<double>& numbers) {
  std::vector<double> values;
  values.reserve(numbers.size());
  absl::c_copy_if(numbers, std::back_inserter(values), [](double x) { return !std::isnan(x); });
  absl::c_sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  Codes found;
  found.count = values.size();
  found.codes.reserve(numbers.size());
  for (const double x : numbers) {
    const auto place = std::isnan(x) ? values.end() : absl::c_lower_bound(values, x);
    found.codes.push_back(static_cast<size_t>(place - values.begin()));
    if (std::isnan(x)) found.count = values.size() + 1;
  }
  return found;
}

Codes CodesOfCategories(const Column& column) {
  const CategoryDictionary dictionary = CanonicalDictionary(column);
  const size_t known = dictionary.categories.size();
  Codes found;
  found.count = known;
  found.codes.reserve(column.codes.size());
  for (const int32_t code : column.codes) {
    const bool missing = code == kMissingCode;
    found.codes.push_back(missing ? known : static_cast<size_t>(dictionary.renumber[code]));
    if (missing) found.count = known + 1;
  }
  return found;
}

// The combination of both, without pairs that do not occur; empty if there are more than `most`
// pairs.
Codes PairsOf(const Codes& one, const Codes& other, size_t most) {
  absl::flat_hash_map<size_t, size_t> places;
  std::vector<size_t> pairs;
  pairs.reserve(one.codes.size());
  for (size_t row = 0; row < one.codes.size(); ++row) {
    pairs.push_back(one.codes[row] * other.count + other.codes[row]);
    places[pairs.back()] = 0;
    if (places.size() > most) return {};
  }
  std::vector<size_t> sorted;
  for (const auto& [pair, place] : places) sorted.push_back(pair);
  absl::c_sort(sorted);
  Codes found;
  for (const size_t pair : sorted) places[pair] = found.count++;
  for (const size_t pair : pairs) found.codes.push_back(places[pair]);
  return found;
}

}  // namespace

Codes CodesOf(const Column& column) {
  return column.type == ColumnType::kNumeric ? CodesOfNumbers(column.numbers)
                                             : CodesOfCategories(column);
}

size_t CountValues(const Column& column, size_t enough) {
  if (column.type == ColumnType::kCategorical) {
    const bool missing = absl::c_linear_search(column.codes, kMissingCode);
    return CanonicalDictionary(column).categories.size() + (missing ? 1 : 0);
  }
  absl::flat_hash_set<double> values;
  size_t missing = 0;
  for (const double x : column.numbers) {
    if (std::isnan(x)) {
      missing = 1;
    } else {
      values.insert(x);
    }
    if (values.size() + missing >= enough) break;
  }
  return values.size() + missing;
}

std::vector<SeriesGrouping> SeriesGroupings(const Table& features) {
  const size_t most = static_cast<size_t>(features.rows()) / kLeastSeriesRows;
  struct Single {
    int64_t column;
    size_t values;
  };
  std::vector<Single> fewest;
  for (size_t i = 0; i < features.columns.size(); ++i) {
    const size_t values = CountValues(features.columns[i], most + 1);
    if (values >= 2 && values <= most) fewest.push_back({static_cast<int64_t>(i), values});
  }
  std::stable_sort(fewest.begin(), fewest.end(),
                   [](const Single& a, const Single& b) { return a.values < b.values; });
  if (fewest.size() > kMostColumns) fewest.resize(kMostColumns);
  std::vector<SeriesGrouping> found;
  found.reserve(fewest.size());
  for (const Single& each : fewest) {
    found.push_back({{each.column}, CodesOf(features.columns[each.column])});
  }
  const size_t single = found.size();
  for (size_t i = 0; i < single; ++i) {
    for (size_t j = i + 1; j < single; ++j) {
      Codes pairs = PairsOf(found[i].series, found[j].series, most);
      if (pairs.count == 0) continue;
      found.push_back({{found[i].columns[0], found[j].columns[0]}, std::move(pairs)});
    }
  }
  return found;
}

bool RepeatAtMost(size_t most, const Codes& values, const Codes& series) {
  if (values.count * series.count + most < values.codes.size()) return false;
  absl::flat_hash_set<size_t> seen;
  size_t repeats = 0;
  for (size_t row = 0; row < values.codes.size(); ++row) {
    const bool is_new = seen.insert(series.codes[row] * values.count + values.codes[row]).second;
    if (!is_new && ++repeats > most) return false;
  }
  return true;
}

std::vector<std::vector<size_t>> SplitBySeries(const Codes& series,
                                               absl::Span<const double> numbers) {
  std::vector<std::vector<size_t>> split(series.count);
  for (size_t row = 0; row < series.codes.size(); ++row) split[series.codes[row]].push_back(row);
  for (std::vector<size_t>& rows : split) {
    absl::c_sort(rows, [&](size_t a, size_t b) { return numbers[a] < numbers[b]; });
  }
  return split;
}

}  // namespace chorale
