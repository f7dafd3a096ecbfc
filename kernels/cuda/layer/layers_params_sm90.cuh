// The parameters of LayersKernel (compute capability 9.0), and its barriers.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYERS_PARAMS_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYERS_PARAMS_SM90_CUH_

#include "kernels/cuda/embed/embed.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layers.h"
#include "kernels/cuda/layer/smem_layers_sm90.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/smem.cuh"

namespace chorale::kernels::cuda {

// The sizes of a model that the kernel supports, but Dff.
constexpr ModelShape LayersShape() {
  return {.width = 128, .heads = 2, .kv_heads = 2, .head_dim = kLayersHeadDim};
}

struct LayersKernelParams {
  LayerParams layer;  // of every layer: without tiles, weights and attention
  EmbedPathsParams paths;
  LayersSmem shared;
  int32_t layers;
  FusedLayer weights[kMostFusedLayers];
};

// The named barrier of all warps that compute GEMMs, after those of TileRows::Sync.
inline constexpr int kConsumersBarrier = kWarpgroupWarps + 1;

// Barriers in shared memory. Phases count layers, unless stated.
struct LayersBarriers {
  Mbarrier full[kConsumerWarpgroups][kUnits];  // phases count rounds of the ring
  Mbarrier empty[kConsumerWarpgroups][kUnits];
  Mbarrier voted[kConsumerWarpgroups];  // whether a warpgroup takes its keys again
  Mbarrier q_ready;                     // q, K and V of all rows are stored
  Mbarrier buffers_done;                // the states of all buffers are stored
  Mbarrier vectors_full[kVectorSlots];  // phases count uses of a slot
  Mbarrier vectors_empty[kVectorSlots];
  Mbarrier buffers_full[kBufferStages];  // phases count rounds
  Mbarrier buffers_empty[kBufferStages];
  uint32_t votes[kConsumerWarpgroups][kWarpgroupWarps];
  uint32_t not_finite[kConsumerWarpgroups][kWarpgroupWarps];  // see PathKeys

  // `smem`: the block's, or OwnSmem.
  __device__ __forceinline__ static LayersBarriers& Of(const LayersKernelParams& params,
                                                       char* smem) {
    return *reinterpret_cast<LayersBarriers*>(params.shared.barriers.At(smem));
  }
  __device__ __forceinline__ static LayersBarriers& Of(const LayersKernelParams& params) {
    return Of(params, DynamicSmem());
  }
  __device__ __forceinline__ void Init() {
    for (int h = 0; h < kConsumerWarpgroups; ++h) {
      for (int i = 0; i < kUnits; ++i) {
        MbarrierInit(&full[h][i], 1);
        MbarrierInit(&empty[h][i], kWarpgroupWarps);
      }
      MbarrierInit(&voted[h], kWarpgroupWarps);
    }
    MbarrierInit(&q_ready, kConsumerWarps);
    MbarrierInit(&buffers_done, kWarpgroupWarps);
    for (int i = 0; i < kBufferStages; ++i) {
      MbarrierInit(&buffers_full[i], 1);
      MbarrierInit(&buffers_empty[i], kWarpgroupWarps);
    }
    for (int i = 0; i < kVectorSlots; ++i) {
      MbarrierInit(&vectors_full[i], 1);
      MbarrierInit(&vectors_empty[i], kConsumerWarps);
    }
  }
};
static_assert(sizeof(LayersBarriers) <= kLayersBarriersBytes);

// DynamicSmem for a warpgroup whose code differs from that of others. What the compiler computes
// once for all of them, it keeps in local memory for all of them, if one is short of registers.
// Shared memory leaves local memory almost no cache.
__device__ __forceinline__ char* OwnSmem() {
  int zero = 0;
  PinValue(zero);
  return DynamicSmem() + zero;
}

__device__ __forceinline__ char* UnitAt(const LayersKernelParams& params, char* smem, int warpgroup,
                                        int unit) {
  return params.shared.ring.At(smem) + (warpgroup * kUnits + unit) * kUnitBytes;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYERS_PARAMS_SM90_CUH_
