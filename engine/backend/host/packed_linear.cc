#include "engine/backend/host/packed_linear.h"

#include <cassert>

#include "kernels/ops/panel_layout.h"

namespace chorale {

PackedLinear::PackedLinear(const std::vector<float>& weight, const std::vector<float>& bias,
                           int64_t out, int64_t in)
    : weight_(kernels::PackedLinearSize(out, in)), bias_(bias), out_(out), in_(in) {
  kernels::PackLinearWeight(weight.data(), out, in, weight_.data());
}

void PackedLinear::Apply(int64_t rows, const float* x, int64_t x_stride, float* y,
                         kernels::Activation activation) const {
  const kernels::LinearParams params = {.x = x,
                                        .weight = weight(),
                                        .bias = bias(),
                                        .y = y,
                                        .rows = rows,
                                        .in = in_,
                                        .out = out_,
                                        .x_stride = x_stride,
                                        .y_stride = out_,
                                        .activation = activation};
  assert(kernels::ValidateLinear(params).ok());
  kernels::Linear(params);
}

std::vector<float> Stacked(std::initializer_list<absl::Span<const float>> weights) {
  std::vector<float> stacked;
  for (const absl::Span<const float> weight : weights) {
    stacked.insert(stacked.end(), weight.begin(), weight.end());
  }
  return stacked;
}

}  // namespace chorale
