// y = x Phi(x), with the normal distribution function Phi: the activation between the head's two
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

// Returns InvalidArgument with the field for null pointers and non-positive sizes.
absl::Status ValidatePreciseGelu(const PreciseGeluParams& params);

// Computed in float64 with a relative error of 1e-13, also where Phi(x) is tiny, and rounded once.
// NaN remains NaN; minus infinity becomes zero, which is the limit. The result of a number does not
// depend on adjacent numbers. REQUIRES: ValidatePreciseGelu(params).ok().
void PreciseGelu(const PreciseGeluParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_PRECISE_GELU_H_
