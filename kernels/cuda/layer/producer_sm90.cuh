// What the two layer kernels with wgmma share: a producer that copies weights and vectors to shared
// memory.
#ifndef CHORALE_KERNELS_CUDA_LAYER_PRODUCER_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_PRODUCER_SM90_CUH_

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/cuda/layer/weight_ring.cuh"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/smem.cuh"

namespace chorale::kernels::cuda {

// Params: WgmmaLayerParams or TileLayerParams.
template <typename Params>
__device__ __forceinline__ WeightRing RingOf(const Params& params) {
  static_assert(sizeof(Mbarrier) == sizeof(uint64_t));
  Mbarrier* const barriers = params.shared.ring_barriers.At(DynamicSmem());
  const int stages = params.shared.stages;
  return {params.shared.ring.At(DynamicSmem()), barriers, barriers + stages, stages};
}

template <typename Params>
__device__ __forceinline__ Mbarrier* InputsReadyOf(const Params& params) {
  return params.shared.inputs_ready.At(DynamicSmem());
}

// Fills the ring with the wgmma tiles of a launch, in the order in which the consumers read them.
class WeightLoader {
 public:
  // The wgmma tiles of a layer's parts: those of a part that the launch has not may be null.
  __device__ __forceinline__ WeightLoader(const LayerParams& p, const uint16_t* post_tiles,
                                          const uint16_t* pre_tiles, const WeightRing& ring)
      : ring_(ring) {
    const auto post_attention = static_cast<int>(PostAttentionTiles(p.shape));
    const auto pre_attention = static_cast<int>(PreAttentionTiles(p.shape));
    // A weight tile takes a stage for each consumer warpgroup.
    post_stages_ = p.part == LayerPart::kPreAttention ? 0 : post_attention * kConsumerWarpgroups;
    pre_stages_ = p.part == LayerPart::kPostAttention ? 0 : pre_attention * kConsumerWarpgroups;
    next_ = reinterpret_cast<const char*>(post_tiles);
    pre_attention_ = reinterpret_cast<const char*>(pre_tiles);
  }

  // Fills the next `stages` stages, or all that are left.
  __device__ __forceinline__ void Fill(int stages) {
    for (; stages > 0 && left() > 0; --stages) {
      if (filled_ == post_stages_) next_ = pre_attention_;
      ring_.Fill(next_);
      next_ += kStageBytes;
      ++filled_;
    }
  }

  __device__ __forceinline__ int filled() const { return filled_; }
  __device__ __forceinline__ int left() const { return post_stages_ + pre_stages_ - filled_; }

 private:
  RingProducer ring_;
  int post_stages_;
  int pre_stages_;
  int filled_ = 0;
  const char* next_;
  const char* pre_attention_;
};

// Index of a block's first row among the rows of all tiles.
__device__ __forceinline__ int64_t FirstRowOf(int tile_index, int first_group) {
  return static_cast<int64_t>(tile_index) * kTileRows + first_group * kGroupRows;
}

// Starts to copy the vectors of a launch, which no kernel writes, to shared memory. InputsReadyOf
// expects them, and `more_bytes` that the caller copies. Called by one thread.
template <typename Params>
__device__ __forceinline__ void CopyVectors(const Params& params, int more_bytes) {
  const LayerParams& p = params.layer;
  Mbarrier* const inputs_ready = InputsReadyOf(params);
  const int post_bytes =
      p.part == LayerPart::kPreAttention ? 0 : 4 * PostAttentionVectorsSize(p.shape);
  const int pre_bytes =
      p.part == LayerPart::kPostAttention ? 0 : 4 * PreAttentionVectorsSize(p.shape);
  MbarrierArriveExpectTx(inputs_ready, post_bytes + pre_bytes + more_bytes);
  if (post_bytes > 0) {
    CpAsyncBulk(params.shared.post_vectors.At(DynamicSmem()), p.post_attention.vectors, post_bytes,
                inputs_ready);
  }
  if (pre_bytes > 0) {
    CpAsyncBulk(params.shared.pre_vectors.At(DynamicSmem()), p.pre_attention.vectors, pre_bytes,
                inputs_ready);
  }
}

// Copies all other weights, unless the block's rows from first_group on are not in use: then waits
// for the copies that were started, since a block must not end before. Called by one thread, after
// GridDepWait.
template <typename Params>
__device__ __forceinline__ void CopyWeights(const Params& params, int tile_index, int first_group,
                                            const WeightRing& ring, WeightLoader& weights) {
  if (LoadCg<int32_t>(&params.layer.tiles[tile_index].groups) > first_group) {
    weights.Fill(weights.left());
    return;
  }
  for (int i = 0; i < weights.filled(); ++i) MbarrierWait(ring.full + i, 0);
  MbarrierWait(InputsReadyOf(params), 0);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_PRODUCER_SM90_CUH_
