#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/sampler.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {

std::string LoadColumnName(int column) {
  return column + 1 == kLoadColumns ? "y" : absl::StrCat("x", column);
}

std::vector<double> LoadColumn(int context, int column, int64_t rows) {
  const uint64_t table = static_cast<uint64_t>(context + 2) * 100;
  std::vector<double> values(rows);
  if (column + 1 < kLoadColumns) {
    const std::vector<float> drawn = MakeValues(rows, table + column);
    return {drawn.begin(), drawn.end()};
  }
  for (int feature = 0; feature + 1 < kLoadColumns; ++feature) {
    const std::vector<float> x = MakeValues(rows, table + feature);
    for (int64_t row = 0; row < rows; ++row) values[row] += std::sin(2.0 * x[row] + feature);
  }
  return values;
}

}  // namespace chorale
