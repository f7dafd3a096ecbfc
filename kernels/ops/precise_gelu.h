// y = x Phi(x), with Phi the normal distribution function: the activation between the head's two
// linear maps (precise_linear.h). Takes float64 sums, returns float32 inputs.
#ifndef CHORALE_KERNELS_OPS_PRECISE_GELU_H_
#define CHORALE_KERNELS_OPS_PRECISE_GELU_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

struct PreciseGeluParams {
  const double* x = nullptr;  // [n]
  float* y = nullptr;         // [n]
  int64_t n = 0;
};

// InvalidArgument naming the field, for null pointers and non-positive sizes.
absl::Status ValidatePreciseGelu(const PreciseGeluParams& params);

// Computed in float64 to a relative 1e-13, also where Phi(x) is tiny, and rounded once. NaN stays
// NaN; minus infinity becomes zero, which is the limit. A number's result does not depend on its
// neighbours.
// REQUIRES: ValidatePreciseGelu(params).ok().
void PreciseGelu(const PreciseGeluParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_PRECISE_GELU_H_
