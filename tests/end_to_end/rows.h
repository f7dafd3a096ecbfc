// Numeric tables as the tests make them, and their form in the API.
#ifndef CHORALE_TESTS_END_TO_END_ROWS_H_
#define CHORALE_TESTS_END_TO_END_ROWS_H_

#include <cstdint>
#include <vector>

#include "chorale/v1/chorale.pb.h"

namespace chorale::end_to_end {

// Rows of numeric features, with y where they are a context's.
struct Rows {
  int64_t features = 0;
  std::vector<double> x = {};  // [rows, features], row-major
  std::vector<double> y = {};  // [rows], or empty

  int64_t count() const { return static_cast<int64_t>(x.size()) / features; }
};

// Rows with a smooth dependence of y on x, and noise; all numbers are exact in float32.
Rows RandomRows(int64_t rows, int64_t features, uint64_t seed);

// Columns x0, x1, .. of rows [first, first + count).
v1::Table FeatureTable(const Rows& rows, int64_t first, int64_t count);
v1::Table FeatureTable(const Rows& rows);

// The same, and the column y.
v1::Table ContextTable(const Rows& rows, int64_t first, int64_t count);

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_ROWS_H_
