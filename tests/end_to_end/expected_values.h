// Comparison of what a server answered with what golden files expect.
#ifndef CHORALE_TESTS_END_TO_END_EXPECTED_VALUES_H_
#define CHORALE_TESTS_END_TO_END_EXPECTED_VALUES_H_

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
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

// Mixtures of a golden file, [n, M] each. Golden files have the components in the model's order,
// and responses in the order of their means.
struct ExpectedMixtures {
  std::vector<double> means;
  std::vector<double> stds;
  std::vector<double> weights;

  void SortComponents(size_t components) {
    const ExpectedMixtures from = *this;
    for (size_t first = 0; first < means.size(); first += components) {
      std::vector<size_t> order(components);
      std::iota(order.begin(), order.end(), first);
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return from.means[a] < from.means[b]; });
      for (size_t place = 0; place < components; ++place) {
        means[first + place] = from.means[order[place]];
        stds[first + place] = from.stds[order[place]];
        weights[first + place] = from.weights[order[place]];
      }
    }
  }
};

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_EXPECTED_VALUES_H_
