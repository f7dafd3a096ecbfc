// The units of LayersKernel: keys and weights on their way to the warpgroups that compute; and the
// vectors of layers.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYERS_UNITS_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYERS_UNITS_SM90_CUH_

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/layers_params_sm90.cuh"
#include "kernels/cuda/layer/smem_layers_sm90.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// A warp's view of its warpgroup's units. All lanes call it together, and take and release every
// unit.
class UnitReader {
 public:
  __device__ __forceinline__ UnitReader(const LayersKernelParams& params, int warpgroup)
      : memory_(SmemAddress(UnitAt(params, DynamicSmem(), warpgroup, 0))),
        full_(LayersBarriers::Of(params).full[warpgroup]),
        empty_(LayersBarriers::Of(params).empty[warpgroup]) {}

  __device__ __forceinline__ int Take() {
    const int unit = next_;
    MbarrierWait(full_ + unit, parity_);
    __syncwarp();
    if (++next_ == kUnits) {
      next_ = 0;
      parity_ ^= 1;
    }
    return unit;
  }
  __device__ __forceinline__ void Release(int unit) const {
    __syncwarp();
    if (LaneIndex() == 0) MbarrierArrive(empty_ + unit);
  }
  __device__ __forceinline__ uint32_t Address(int unit) const {
    return memory_ + unit * kUnitBytes;
  }

 private:
  const uint32_t memory_;
  Mbarrier* const full_;
  Mbarrier* const empty_;
  int next_ = 0;
  uint32_t parity_ = 0;
};

// The thread that fills the units of a warpgroup. Of each layer: the keys of the warpgroup's head,
// K0 and K1, V0 and K2, V1 and K3, ... as they are used together, then its weights. Once the units
// of the weights that follow are in flight, it waits for the vote, after which it may have to send
// everything since the keys again.
class UnitFiller {
  static constexpr int kHalfBytes = kUnitBytes / 2;
  static_assert(kUnitBytes == kStageBytes);  // of a warpgroup's outputs of a weight tile
  static_assert(kUnitBytes == 2 * KeyBlockSize(kLayersHeadDim));  // of K and V of a key block

 public:
  __device__ __forceinline__ UnitFiller(const LayersKernelParams& params, int warpgroup)
      : params_(params), warpgroup_(warpgroup), smem_(OwnSmem()) {}

  // Fills the units of both warpgroups with the first weights, before GridDepWait. Called by the
  // warpgroup whose first two warps fill them from then on.
  __device__ __forceinline__ static void FillFirst(const LayersKernelParams& params) {
    const int warp = WarpIndex() % kWarpgroupWarps;
    if (warp < kConsumerWarpgroups && LaneIndex() == 0) {
      UnitFiller(params, warp).FillWeights(-1, 0, kUnits);
    }
  }

  // Fills them for an idle tile no more. REQUIRES: FillFirst was called.
  __device__ __forceinline__ void Run(const Tile& tile) {
    auto& barriers = LayersBarriers::Of(params_, smem_);
    if (tile.groups == 0) {
      for (int i = 0; i < kUnits; ++i) MbarrierWait(&barriers.full[warpgroup_][i], 0);
      return;
    }
    parity_ = 1;  // FillFirst has filled each unit once
    FillWeights(-1, kUnits, UnitsOf(-1));
    uint32_t parity = 0;
#pragma unroll 1
    for (int layer = 0; layer < params_.layers; ++layer) {
      FillKeys(tile, layer);
      FillWeights(layer, 0, kUnits);
      MbarrierWait(&barriers.voted[warpgroup_], parity);
      parity ^= 1;
      uint32_t votes = 0;
      for (int i = 0; i < kWarpgroupWarps; ++i) votes |= barriers.votes[warpgroup_][i];
      if (votes != 0) {
        FillKeys(tile, layer);
        FillWeights(layer, 0, kUnits);
      }
      FillWeights(layer, kUnits, UnitsOf(layer));
    }
  }

 private:
  // Units of post-attention of a layer and pre-attention of the next one.
  __device__ __forceinline__ int PostUnits(int layer) const {
    return layer < 0 ? 0 : static_cast<int>(PostAttentionTiles(params_.layer.shape));
  }
  __device__ __forceinline__ int UnitsOf(int layer) const {
    const int pre =
        layer + 1 == params_.layers ? 0 : static_cast<int>(PreAttentionTiles(params_.layer.shape));
    return PostUnits(layer) + pre;
  }
  __device__ __forceinline__ void FillWeights(int layer, int begin, int end) {
    const int post = PostUnits(layer);
#pragma unroll 1
    for (int i = begin; i < end; ++i) {
      const bool is_post = i < post;
      const int unit = is_post ? i : i - post;
      const auto* tiles =
          reinterpret_cast<const char*>(is_post ? params_.weights[max(layer, 0)].post_tiles
                                                : params_.weights[layer + 1].pre_tiles);
      const char* const from = tiles + (unit * kConsumerWarpgroups + warpgroup_) * kUnitBytes;
      Fill(from, from + kHalfBytes);
    }
  }
  __device__ __forceinline__ void FillKeys(const Tile& tile, int layer) {
    const auto* head = reinterpret_cast<const char*>(
        tile.context + ContextKeyBlockAt(layer, warpgroup_, /*key_block=*/0, tile.context_capacity,
                                         kConsumerWarpgroups, kLayersHeadDim));
    const int key_blocks = static_cast<int>(ContextKeyBlocks(tile.context_rows));
    if (key_blocks == 0) return;
    Fill(head, key_blocks > 1 ? head + 2 * kHalfBytes : nullptr);
#pragma unroll 1
    for (int i = 0; i < key_blocks; ++i) {
      const char* const values = head + i * (2 * kHalfBytes) + kHalfBytes;
      Fill(values, i + 2 < key_blocks ? values + 3 * kHalfBytes : nullptr);
    }
  }
  // Fills the halves of a unit; the second one may be null, and is then left as it is.
  __device__ __forceinline__ void Fill(const char* first, const char* second) {
    auto& barriers = LayersBarriers::Of(params_, smem_);
    Mbarrier* const full = &barriers.full[warpgroup_][next_];
    MbarrierWait(&barriers.empty[warpgroup_][next_], parity_ ^ 1);
    MbarrierArriveExpectTx(full, second == nullptr ? kHalfBytes : 2 * kHalfBytes);
    char* const to = UnitAt(params_, smem_, warpgroup_, next_);
    CpAsyncBulk(to, first, kHalfBytes, full);
    if (second != nullptr) CpAsyncBulk(to + kHalfBytes, second, kHalfBytes, full);
    if (++next_ == kUnits) {
      next_ = 0;
      parity_ ^= 1;
    }
  }

  const LayersKernelParams& params_;
  const int warpgroup_;
  char* const smem_;
  int next_ = 0;
  uint32_t parity_ = 0;
};

// Copies the vectors of each layer. Called by one thread.
__device__ __forceinline__ void FillVectors(const LayersKernelParams& params) {
  char* const smem = OwnSmem();
  auto& barriers = LayersBarriers::Of(params, smem);
  const ModelShape& shape = params.layer.shape;
  const int post_bytes = 4 * PostAttentionVectorsSize(shape);
  const int pre_bytes = 4 * PreAttentionVectorsSize(shape);
#pragma unroll 1
  for (int layer = -1; layer < params.layers; ++layer) {
    const int slot = (layer + 1) % kVectorSlots;
    const uint32_t parity = (layer + 1) / kVectorSlots & 1;
    char* const to =
        reinterpret_cast<char*>(params.shared.vectors.At(smem) + slot * params.shared.vectors_size);
    Mbarrier* const full = &barriers.vectors_full[slot];
    const bool has_post = layer >= 0;
    const bool has_pre = layer + 1 < params.layers;
    MbarrierWait(&barriers.vectors_empty[slot], parity ^ 1);
    MbarrierArriveExpectTx(full, (has_post ? post_bytes : 0) + (has_pre ? pre_bytes : 0));
    if (has_post) CpAsyncBulk(to, params.weights[layer].post_vectors, post_bytes, full);
    if (has_pre) {
      CpAsyncBulk(to + post_bytes, params.weights[layer + 1].pre_vectors, pre_bytes, full);
    }
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYERS_UNITS_SM90_CUH_
