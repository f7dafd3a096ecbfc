// Stores the results of attention of a warp's 16 rows.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_STORE_ATTENTION_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_STORE_ATTENTION_CUH_

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// Stores a state as the partial of a split.
template <int kHeadDim>
__device__ __forceinline__ void StoreState(const AttentionParams& p, int tile, int split, int group,
                                           int head, const RowState<kHeadDim>& state) {
  const int lane = LaneIndex();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = (static_cast<int64_t>(split) * p.tile_count + tile) * kTileRows +
                        group * kGroupRows + half * 8 + lane / 4;
    const int64_t at = row * p.shape.heads + head;
    float* o = p.partial_o + at * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
      StoreAs<Floats2>(o + 8 * n, {state.o[n][2 * half], state.o[n][2 * half + 1]});
    }
    if (lane % 4 == 0) {
      StoreAs<Floats2>(p.partial_ml + at * 2, {state.m[half], state.l[half]});
    }
  }
}

// Stores attention. A row without keys has l = 0; its attention is 0.
template <int kHeadDim>
__device__ __forceinline__ void StoreAttended(const AttentionParams& p, int tile, int group,
                                              int head, const RowState<kHeadDim>& state) {
  const int lane = LaneIndex();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row =
        static_cast<int64_t>(tile) * kTileRows + group * kGroupRows + half * 8 + lane / 4;
    uint16_t* to = p.attended + (row * p.shape.heads + head) * kHeadDim + lane % 4 * 2;
    const float divisor = state.l[half] > 0 ? Rcp(state.l[half]) : 0.0f;
#pragma unroll
    for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
      StoreAs<uint32_t>(
          to + 8 * n, PackBf16(state.o[n][2 * half] * divisor, state.o[n][2 * half + 1] * divisor));
    }
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_STORE_ATTENTION_CUH_
