// y = activation(x W^T + b): the linear map of every projection and feed-forward layer.
#ifndef CHORALE_KERNELS_OPS_LINEAR_H_
#define CHORALE_KERNELS_OPS_LINEAR_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

enum class Activation {
  kNone,
  kGelu,  // x/2 (1 + erf(x / sqrt 2)), the exact form
};

struct LinearParams {
  const float* x = nullptr;       // [rows, in], row stride x_stride
  const float* weight = nullptr;  // packed [ceil(out/16)][in][16], see panel_layout.h
  const float* bias = nullptr;    // [out], or null for none
  float* y = nullptr;             // [rows, out], row stride y_stride; does not overlap x
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
  Activation activation = Activation::kNone;
};

// Returns InvalidArgument with the field for null pointers, non-positive sizes or strides that are
// too small.
absl::Status ValidateLinear(const LinearParams& params);

// Packs W [out, in], row-major, into `packed` [PackedLinearSize(out, in)].
void PackLinearWeight(const float* weight, int64_t out, int64_t in, float* packed);

// A row's result does not depend on the other rows of the call. REQUIRES:
// ValidateLinear(params).ok().
void Linear(const LinearParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_LINEAR_H_
