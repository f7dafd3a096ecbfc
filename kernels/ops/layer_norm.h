// y = LayerNorm(x + residual): mean and variance over the row, then scale and shift.
//   y_i = (z_i - mean) / sqrt(var + eps) * gamma_i + beta_i,   z = x + residual,   var biased (1/D)
#ifndef CHORALE_KERNELS_OPS_LAYER_NORM_H_
#define CHORALE_KERNELS_OPS_LAYER_NORM_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

struct LayerNormParams {
  const float* x = nullptr;         // [rows, width], contiguous
  const float* residual = nullptr;  // [rows, width], contiguous, or null for none
  const float* gamma = nullptr;     // [width]
  const float* beta = nullptr;      // [width]
  float* y = nullptr;               // [rows, width], contiguous; may be x or residual itself
  int64_t rows = 0;
  int64_t width = 0;
  float epsilon = 1e-5f;
};

absl::Status ValidateLayerNorm(const LayerNormParams& params);

// A row's result does not depend on the other rows of the call. REQUIRES:
// ValidateLayerNorm(params).ok().
void LayerNorm(const LayerNormParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_LAYER_NORM_H_
