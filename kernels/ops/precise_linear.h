// y = x W^T + b for float32 x and W, summed and returned in float64: the linear maps of the head.
// Far from the mean, a density magnifies rounding errors of the mean a thousandfold, so the raw
// parameters of a mixture are never rounded to float32.
#ifndef CHORALE_KERNELS_OPS_PRECISE_LINEAR_H_
#define CHORALE_KERNELS_OPS_PRECISE_LINEAR_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

struct PreciseLinearParams {
  const float* x = nullptr;       // [rows, in], row stride x_stride
  const float* weight = nullptr;  // packed [ceil(out/16)][in][16], see panel_layout.h
  const float* bias = nullptr;    // [out]
  double* y = nullptr;            // [rows, out], row stride y_stride
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
};

// Returns InvalidArgument with the field for null pointers, non-positive sizes or strides that are
// too small.
absl::Status ValidatePreciseLinear(const PreciseLinearParams& params);

// A row's result does not depend on the other rows of the call. REQUIRES:
// ValidatePreciseLinear(params).ok().
void PreciseLinear(const PreciseLinearParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_PRECISE_LINEAR_H_
