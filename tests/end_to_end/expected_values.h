// Comparison of what a server answered with what golden files expect.
#ifndef CHORALE_TESTS_END_TO_END_EXPECTED_VALUES_H_
#define CHORALE_TESTS_END_TO_END_EXPECTED_VALUES_H_

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <string>
#include <utility>
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

  // Orders the components like those of `mixtures`: by their means, and neighbours whose means
  // differ by no more than their errors, `tolerance` each, by their other parameters.
  template <typename Mixtures>
  void OrderLike(const Mixtures& mixtures, double tolerance) {
    const auto components = static_cast<size_t>(mixtures.component_count());
    for (size_t first = 0; first < means.size(); first += components) {
      SortByMean(first, components);
      // Each swap decreases the distance of the mixtures, so the loop ends.
      for (bool swapped = true; swapped;) {
        swapped = false;
        for (size_t i = first; i + 1 < first + components; ++i) {
          if (std::abs(means[i + 1] - means[i]) > 2 * tolerance) continue;
          const double gain = Distance(mixtures, i, i) + Distance(mixtures, i + 1, i + 1) -
                              Distance(mixtures, i, i + 1) - Distance(mixtures, i + 1, i);
          if (gain <= 1e-9) continue;
          std::swap(means[i], means[i + 1]);
          std::swap(stds[i], stds[i + 1]);
          std::swap(weights[i], weights[i + 1]);
          swapped = true;
        }
      }
    }
  }

 private:
  void SortByMean(size_t first, size_t components) {
    const ExpectedMixtures from = *this;
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
  // Of the other parameters of two components.
  template <typename Mixtures>
  double Distance(const Mixtures& mixtures, size_t theirs, size_t ours) const {
    const int i = static_cast<int>(theirs);
    return std::abs(mixtures.stds(i) - stds[ours]) + std::abs(mixtures.weights(i) - weights[ours]);
  }
};

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_EXPECTED_VALUES_H_
