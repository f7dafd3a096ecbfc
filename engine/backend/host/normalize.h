// Layer norm for the forward passes.
#ifndef CHORALE_ENGINE_BACKEND_HOST_NORMALIZE_H_
#define CHORALE_ENGINE_BACKEND_HOST_NORMALIZE_H_

#include <cstdint>

#include "engine/model/model.h"

namespace chorale {

// y [rows, width] = LN(x + residual), with the width of the norm; residual may be null, y may be x.
void Normalize(const LayerNormWeights& norm, float epsilon, int64_t rows, const float* x,
               const float* residual, float* y);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_HOST_NORMALIZE_H_
