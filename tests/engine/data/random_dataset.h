// Valid datasets drawn at random, for property tests.
#ifndef CHORALE_TESTS_ENGINE_DATA_RANDOM_DATASET_H_
#define CHORALE_TESTS_ENGINE_DATA_RANDOM_DATASET_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/data/table.h"

namespace chorale {

inline Column RandomColumn(std::mt19937_64& random, const std::string& name, int64_t rows) {
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  Column column;
  column.name = name;
  if (below(2) == 0) {
    for (int64_t row = 0; row < rows; ++row) {
      const double values[] = {0.0,
                               -0.0,
                               1.5,
                               std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::denorm_min(),
                               -1e300,
                               std::normal_distribution<double>(0, 1)(random)};
      column.numbers.push_back(values[below(7)]);
    }
    if (rows % 3 == 1) column.meaning = Meaning::kDate;
    return column;
  }
  column.type = ColumnType::kCategorical;
  const int64_t categories = below(6);  // some never used; none at all now and then
  for (int64_t i = 0; i < categories; ++i) {
    column.categories.push_back(absl::StrCat(std::string(below(3), 'x'), "c", i, "\u00e9"));
  }
  std::shuffle(column.categories.begin(), column.categories.end(), random);
  for (int64_t row = 0; row < rows; ++row) {
    column.codes.push_back(static_cast<int32_t>(below(categories + 1)) - 1);
  }
  return column;
}

inline Dataset RandomDataset(std::mt19937_64& random) {
  Dataset dataset;
  const int64_t rows = 1 + static_cast<int64_t>(random() % 20);
  const int64_t features = 1 + static_cast<int64_t>(random() % 6);
  for (int64_t i = 0; i < features; ++i) {
    dataset.features.columns.push_back(RandomColumn(random, absl::StrCat("feature ", i), rows));
  }
  dataset.target = std::string("y");
  if (rows % 4 == 1) {
    dataset.memory = {.rows = 64 + features, .policy = MemoryPolicy(1 + rows / 4 % 3)};
  }
  if (rows % 4 == 2 && rows > 2) {
    dataset.append_starts = {rows / 4, rows / 2};
    if (features % 2 == 0) dataset.append_starts.push_back(rows - 1);
  }
  for (int64_t row = 0; row < rows; ++row) {
    dataset.y.push_back(std::normal_distribution<double>(0, 10)(random));
  }
  return dataset;
}

// The same content, with every dictionary in another order and an unused category more.
inline Dataset Renumbered(Dataset dataset, std::mt19937_64& random) {
  for (Column& column : dataset.features.columns) {
    if (column.type != ColumnType::kCategorical) continue;
    column.categories.push_back("never used");
    std::vector<int32_t> place(column.categories.size());
    std::iota(place.begin(), place.end(), 0);
    std::shuffle(place.begin(), place.end(), random);
    std::vector<std::string> categories(place.size());
    for (size_t i = 0; i < place.size(); ++i) categories[place[i]] = column.categories[i];
    column.categories = std::move(categories);
    for (int32_t& code : column.codes) {
      if (code != kMissingCode) code = place[code];
    }
  }
  return dataset;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_DATA_RANDOM_DATASET_H_
