// Comparison of all elements of two arrays: where NaN and infinity stand first, then every element,
// and the worst index is named.
#ifndef CHORALE_TESTS_ENGINE_BACKENDS_CLOSENESS_H_
#define CHORALE_TESTS_ENGINE_BACKENDS_CLOSENESS_H_

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace chorale {

// Fails unless |actual - expected| <= tolerance for every element. Returns the worst error.
template <typename T, typename U>
double ExpectClose(const std::string& what, absl::Span<const T> actual,
                   absl::Span<const U> expected, double tolerance) {
  EXPECT_EQ(actual.size(), expected.size()) << what;
  if (actual.size() != expected.size()) return INFINITY;
  double worst = 0;
  size_t worst_index = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i];
    const double e = expected[i];
    if (!std::isfinite(a) || !std::isfinite(e)) {
      EXPECT_TRUE(a == e || (std::isnan(a) && std::isnan(e)))
          << what << "[" << i << "] is " << a << " where " << e << " is expected";
      continue;
    }
    if (std::abs(a - e) > worst) {
      worst = std::abs(a - e);
      worst_index = i;
    }
  }
  if (!actual.empty()) {
    EXPECT_LE(worst, tolerance) << what << ": the worst element is [" << worst_index << "], "
                                << actual[worst_index] << " where " << expected[worst_index]
                                << " is expected";
  }
  return worst;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKENDS_CLOSENESS_H_
