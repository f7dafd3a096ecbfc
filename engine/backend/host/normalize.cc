#include "engine/backend/host/normalize.h"

#include <cassert>

#include "kernels/ops/layer_norm.h"

namespace chorale {

void Normalize(const LayerNormWeights& norm, float epsilon, int64_t rows, const float* x,
               const float* residual, float* y) {
  const kernels::LayerNormParams params = {.x = x,
                                           .residual = residual,
                                           .gamma = norm.gamma.data(),
                                           .beta = norm.beta.data(),
                                           .y = y,
                                           .rows = rows,
                                           .width = static_cast<int64_t>(norm.gamma.size()),
                                           .epsilon = epsilon};
  assert(kernels::ValidateLayerNorm(params).ok());
  kernels::LayerNorm(params);
}

}  // namespace chorale
