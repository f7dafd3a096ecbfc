// Comparison of what a server answered with what golden files expect.
#ifndef CHORALE_TESTS_END_TO_END_EXPECTED_VALUES_H_
#define CHORALE_TESTS_END_TO_END_EXPECTED_VALUES_H_

#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "tests/engine/backend/closeness.h"

namespace chorale::end_to_end {

// Absolute, on every element, of the CPU backend.
inline constexpr double kTolerance = 1e-4;

// A field of a message.
template <typename Repeated>
std::vector<double> Vector(const Repeated& values) {
  return {values.begin(), values.end()};
}

// Fails unless all elements are finite and close; prints the worst one.
inline void ExpectAllClose(const std::string& what, const std::vector<double>& actual,
                           const std::vector<double>& expected, double tolerance = kTolerance) {
  for (const double value : expected) ASSERT_TRUE(std::isfinite(value)) << what;
  const Worst worst =
      ExpectClose(what, absl::MakeConstSpan(actual), absl::MakeConstSpan(expected), tolerance);
  std::cout << "  " << what << ": worst of " << actual.size() << " is off by " << worst << "\n";
}

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_EXPECTED_VALUES_H_
