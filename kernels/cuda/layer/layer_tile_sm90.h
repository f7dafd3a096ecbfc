// The layer kernel for whole tiles by wgmma, for LaunchLayer.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_TILE_SM90_H_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_TILE_SM90_H_

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// REQUIRES: as LaunchLayer, and UsesTileKernel(params, shared_bytes).
ErrorCode LaunchTileLayer(const LayerParams& params, int shared_bytes, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_TILE_SM90_H_
