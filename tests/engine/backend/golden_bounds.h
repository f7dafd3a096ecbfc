// How far a backend's results may be from the golden models' float64 numbers.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_GOLDEN_BOUNDS_H_
#define CHORALE_TESTS_ENGINE_BACKEND_GOLDEN_BOUNDS_H_

#include <string>

#include "base/require.h"

namespace chorale {

// Absolute, on every element.
struct GoldenBounds {
  std::string model;
  double mean = 0;
  double std = 0;
  double weight = 0;
  double log_density = 0;
};

// Of the GPU backend, about twice the worst error that was measured. The golden models' weights are
// random and their densities sharp (components as narrow as 0.001 of the target's scale), which
// magnifies what bfloat16 loses.
inline GoldenBounds CudaGoldenBounds(const std::string& model) {
  if (model == "golden_tiny") return {model, 2e-3, 6e-4, 4e-4, 3e-3};
  Require(model == "golden_base", "a golden model");
  return {model, 7e-3, 4e-4, 4e-4, 1.2};
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_GOLDEN_BOUNDS_H_
