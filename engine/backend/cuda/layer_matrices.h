// The matrices of a layer for both forms, with padded heads and with the scale of the scores
// multiplied into Wq.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_LAYER_MATRICES_H_
#define CHORALE_ENGINE_BACKEND_CUDA_LAYER_MATRICES_H_

#include "engine/backend/cuda/kernel_shape.h"
#include "engine/model/model.h"
#include "kernels/cuda/layout/matrix.h"

namespace chorale::cuda {

struct LayerMatrices {
  LayerMatrices(const LayerWeights& weights, const ModelConfig& config, const KernelShape& shape);

  kernels::cuda::Matrix feature;     // P
  kernels::cuda::Matrix projection;  // Wq over Wk over Wv; scores are in units of log 2
  kernels::cuda::Matrix out;         // Wo
  kernels::cuda::Matrix up;          // W1
  kernels::cuda::Matrix down;        // W2
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_LAYER_MATRICES_H_
