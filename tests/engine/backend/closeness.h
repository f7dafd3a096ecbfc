// Comparison of all elements of two arrays: where NaN and infinity stand first, then every element,
// and the worst index is named.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_CLOSENESS_H_
#define CHORALE_TESTS_ENGINE_BACKEND_CLOSENESS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <string>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace chorale {

// The element that is furthest from what is expected.
struct Worst {
  double error = 0;
  size_t index = 0;
};

inline std::ostream& operator<<(std::ostream& out, const Worst& worst) {
  return out << worst.error << " at [" << worst.index << "]";
}

// Fails unless |actual - expected| <= tolerance for every element.
template <typename T, typename U>
Worst ExpectClose(const std::string& what, absl::Span<const T> actual, absl::Span<const U> expected,
                  double tolerance) {
  EXPECT_EQ(actual.size(), expected.size()) << what;
  if (actual.size() != expected.size()) return {.error = INFINITY};
  Worst worst;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i];
    const double e = expected[i];
    if (!std::isfinite(a) || !std::isfinite(e)) {
      EXPECT_TRUE(a == e || (std::isnan(a) && std::isnan(e)))
          << what << "[" << i << "] is " << a << " where " << e << " is expected";
      continue;
    }
    if (std::abs(a - e) > worst.error) worst = {.error = std::abs(a - e), .index = i};
  }
  if (!actual.empty()) {
    EXPECT_LE(worst.error, tolerance)
        << what << ": the worst element is [" << worst.index << "], " << actual[worst.index]
        << " where " << expected[worst.index] << " is expected";
  }
  return worst;
}

// The same for the arrays of two mixtures. Returns the worst error of all three.
template <typename Mixture, typename Expected>
double ExpectMixtureClose(const std::string& what, const Mixture& actual, const Expected& expected,
                          double tolerance) {
  double worst = 0;
  const auto compare = [&](const char* array, const auto& a, const auto& e) {
    worst = std::max(
        worst,
        ExpectClose(what + array, absl::MakeConstSpan(a), absl::MakeConstSpan(e), tolerance).error);
  };
  compare(" mean", actual.mean, expected.mean);
  compare(" std", actual.std, expected.std);
  compare(" log weight", actual.log_weight, expected.log_weight);
  return worst;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_CLOSENESS_H_
