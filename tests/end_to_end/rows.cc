#include "tests/end_to_end/rows.h"

#include <cmath>
#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"

namespace chorale::end_to_end {

Rows RandomRows(int64_t rows, int64_t features, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Rows result{.features = features, .x = {}, .y = {}};
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t f = 0; f < features; ++f) {
      result.x.push_back(static_cast<float>(normal(random)));
      sum += result.x.back();
    }
    result.y.push_back(static_cast<float>(std::sin(sum) + 0.3 * normal(random)));
  }
  return result;
}

v1::Table FeatureTable(const Rows& rows, int64_t first, int64_t count) {
  v1::Table table;
  for (int64_t f = 0; f < rows.features; ++f) {
    v1::Column* column = table.add_columns();
    column->set_name(absl::StrCat("x", f));
    auto* values = column->mutable_numeric()->mutable_values();
    for (int64_t row = first; row < first + count; ++row) {
      values->Add(rows.x[row * rows.features + f]);
    }
  }
  return table;
}

v1::Table FeatureTable(const Rows& rows) { return FeatureTable(rows, 0, rows.count()); }

v1::Table ContextTable(const Rows& rows, int64_t first, int64_t count) {
  v1::Table table = FeatureTable(rows, first, count);
  v1::Column* column = table.add_columns();
  column->set_name("y");
  column->mutable_numeric()->mutable_values()->Add(rows.y.begin() + first,
                                                   rows.y.begin() + first + count);
  return table;
}

}  // namespace chorale::end_to_end
