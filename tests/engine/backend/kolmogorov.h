// The test of Kolmogorov and Smirnov.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_KOLMOGOROV_H_
#define CHORALE_TESTS_ENGINE_BACKEND_KOLMOGOROV_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/functional/function_ref.h"

namespace chorale {

// If the distribution of the draws is F, ScaledDistance exceeds this with probability 0.001.
inline constexpr double kLargestDistance = 1.95;

// sqrt(n) sup |F_n - F|, where F_n is the empirical distribution of n draws.
inline double ScaledDistance(std::vector<double> draws, absl::FunctionRef<double(double)> cdf) {
  std::sort(draws.begin(), draws.end());
  const auto n = static_cast<double>(draws.size());
  double distance = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const double f = cdf(draws[i]);
    distance = std::max({distance, std::abs(f - static_cast<double>(i) / n),
                         std::abs(static_cast<double>(i + 1) / n - f)});
  }
  return distance * std::sqrt(n);
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_KOLMOGOROV_H_
