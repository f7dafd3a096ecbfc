// The layer kernel by wgmma, for LaunchLayer.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_H_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_H_

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// REQUIRES: as LaunchLayer, and UsesWgmma(params, block_rows, shared_bytes).
ErrorCode LaunchWgmmaLayer(const LayerParams& params, int block_rows, int shared_bytes,
                           Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_H_
