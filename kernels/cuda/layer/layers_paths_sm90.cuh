// The keys of a tile of whole paths in LayersKernel: the buffer tokens of the tile's own rows.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYERS_PATHS_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYERS_PATHS_SM90_CUH_

#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/layer/layers_params_sm90.cuh"
#include "kernels/cuda/layer/smem_layers_sm90.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace chorale::kernels::cuda {

// A warp's view of one head's keys, in shared memory: key i is the token of pair i, for each of the
// tile's 32 pairs. K and V lie as in a key block.
//
// A row attends to a range of its own path's keys: the weights of all others are zero. Zero times
// infinity is not zero, and no path, and no earlier position of a path, may depend on a value that
// it does not see. So V is stored as zero where it is not finite, and the rows that attend to such
// a key become NaN, as they would by the sum.
class PathKeys {
  static constexpr int kHeadDim = kLayersHeadDim;
  static constexpr int kKeys = kTilePaths;
  using Keys = WgmmaKeys<kHeadDim>;
  static_assert(kPathKeysBytes == 2 * kKeys * kHeadDim * 2);

 public:
  __device__ __forceinline__ PathKeys(const LayersKernelParams& params, int head)
      : keys_(reinterpret_cast<uint16_t*>(params.shared.path_keys.At(DynamicSmem()) +
                                          head * kPathKeysBytes)),
        not_finite_(LayersBarriers::Of(params).not_finite[head]),
        pair_(WarpIndex() % kWarpgroupWarps * kGroupPaths + LaneIndex() / 4) {}

  // Stores 8 columns, from d on, of the K, or the V, of the lane's token.
  __device__ __forceinline__ void StoreKey(int d, const Words4& words) const {
    StoreShared(keys_ + KeyBlockKeyAt(pair_, d, kHeadDim), words);
  }
  // Adds to `finite` whether all of them are.
  __device__ __forceinline__ void StoreValue(int d, const Words4& words, bool& finite) const {
    uint16_t* const values = keys_ + kKeys * kHeadDim - kKeyBlockKeys * kHeadDim;
    const int at = KeyBlockValueAt(pair_, d, kHeadDim);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint16_t* const to = values + KeyBlockValueColumn(at, 2 * i, kHeadDim);
      to[0] = FiniteOrZero(static_cast<uint16_t>(words.w[i]), finite);
      to[kSwizzledRow] = FiniteOrZero(static_cast<uint16_t>(words.w[i] >> 16), finite);
    }
  }
  // Called by the warp after the values of its tokens.
  __device__ __forceinline__ void StoreFinite(bool finite) const {
    const uint32_t lanes = __ballot_sync(kAllLanes, !finite);
    if (LaneIndex() == 0) not_finite_[WarpIndex() % kWarpgroupWarps] = lanes;
  }

  // The softmax state of the lane's rows. `path_positions`: as of Tile. `queries`: address of those
  // of the head. Called by the warpgroup.
  __device__ __forceinline__ void Attend(uint32_t queries, int path_positions,
                                         RowState<kHeadDim>& state) const {
    const int begin = pair_ / path_positions * path_positions;  // first key of the path
    const uint32_t keys = SmemAddress(keys_);
    float s[kKeys / 2] = {};
    HoldOperands(s);
    WgmmaFence();
    Keys::MultiplyKeys(queries, keys, s);
    WgmmaCommit();
    WgmmaWait<0>();
    HoldOperands(s);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        if (i % 4 / 2 != half) continue;
        const int key = i / 4 * 8 + LaneIndex() % 4 * 2 + i % 2;
        if (key < begin || key >= pair_ + half) s[i] = -INFINITY;
        largest = fmaxf(largest, s[i]);
      }
      state.m[half] = MaxOverLanes<4>(largest);
      state.l[half] = 0;
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        if (i % 4 / 2 != half) continue;
        // A row without keys has m = -inf, and all its scores are -inf.
        s[i] = s[i] == -INFINITY ? 0.0f : Exp2(s[i] - state.m[half]);
        state.l[half] += s[i];
      }
    }
    state.FinishSplit();
    uint32_t weights[kKeys / 16][4];
    Keys::PackWeights(s, weights);
    Keys::Sums o = {};
    HoldOperands(o);
    HoldOperands(weights);
    WgmmaFence();
    Keys::MultiplyValuesAt(weights, keys + kPathKeysBytes / 2, o, /*adds=*/false);
    WgmmaCommit();
    WgmmaWait<0>();
    HoldOperands(o);
    HoldOperands(weights);
    const bool nan[2] = {AttendsToNotFinite(begin, pair_), AttendsToNotFinite(begin, pair_ + 1)};
#pragma unroll
    for (int i = 0; i < Keys::kColumns; ++i) {
      state.o[i / 4][i % 4] = nan[i % 4 / 2] ? NAN : o[i];
    }
  }

 private:
  __device__ __forceinline__ static uint16_t FiniteOrZero(uint16_t bf16, bool& finite) {
    constexpr uint16_t kExponent = 0x7f80;
    if ((bf16 & kExponent) != kExponent) return bf16;
    finite = false;
    return 0;
  }

  // Whether a V of keys [begin, end) is not finite.
  __device__ __forceinline__ bool AttendsToNotFinite(int begin, int end) const {
    uint32_t seen = 0;
#pragma unroll
    for (int warp = 0; warp < kWarpgroupWarps; ++warp) {
      const int first = warp * kGroupPaths;
      if (first < begin || first >= end) continue;  // `begin` is a warp's first key
      const int keys = end - first;                 // four bits each
      seen |= not_finite_[warp] & (keys < kGroupPaths ? (1u << 4 * keys) - 1 : ~0u);
    }
    return seen != 0;
  }

  uint16_t* const keys_;
  uint32_t* const not_finite_;  // of each warp's tokens, a bit for each lane
  const int pair_;              // of the lane's rows
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYERS_PATHS_SM90_CUH_
