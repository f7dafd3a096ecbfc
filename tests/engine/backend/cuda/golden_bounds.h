// How far the GPU backend may be off the golden models' float64 numbers.
//
// Weights are random and the densities they give are sharp (components as narrow as 0.001 of the
// target's scale), so that what bfloat16 loses shows large. The bounds are about twice the worst
// error that was measured, per quantity.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_CUDA_GOLDEN_BOUNDS_H_
#define CHORALE_TESTS_ENGINE_BACKEND_CUDA_GOLDEN_BOUNDS_H_

#include <string>

namespace chorale {

// Absolute, on every element.
struct GoldenBounds {
  std::string model;
  double mean = 0;
  double std = 0;
  double weight = 0;
  double log_density = 0;
};

inline const GoldenBounds kCudaGoldenBounds[] = {{"golden_tiny", 2e-3, 6e-4, 4e-4, 3e-3},
                                                 {"golden_base", 7e-3, 4e-4, 4e-4, 1.2}};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_CUDA_GOLDEN_BOUNDS_H_
