// Attention of a warp's 16 rows to keys of a context in shared memory.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ATTEND_KEYS_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_ATTEND_KEYS_CUH_

#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// Replaces the scores `s` by weights 2^(s - m), and adds the weights to l.
template <int kHeadDim>
__device__ __forceinline__ void Exponentiate(float (&s)[AttentionTraits<kHeadDim>::kKeys / 8][4],
                                             RowState<kHeadDim>& state) {
  constexpr int kKeys = AttentionTraits<kHeadDim>::kKeys;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = s[0][2 * half];
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      largest = fmaxf(largest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    }
    state.RaiseMaximum(half, MaxOverLanes<4>(largest));
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[n][i] = Exp2(s[n][i] - state.m[half]);
        state.l[half] += s[n][i];
      }
    }
  }
}

// Attends to kKeys keys of a key block in shared memory, from `first` on. Keys from `valid` on are
// ignored. REQUIRES: the rows have attended to a key before, or first < valid.
template <int kHeadDim>
__device__ __forceinline__ void AttendKeys(const uint16_t* key_block, int first, int valid,
                                           const Queries<kHeadDim>& q, RowState<kHeadDim>& state) {
  using T = AttentionTraits<kHeadDim>;
  constexpr int kKeys = T::kKeys;
  const int lane = LaneIndex();
  const uint16_t* keys = key_block + first * kHeadDim + lane * T::kLaneElements;
  float s[kKeys / 8][4];  // scores of rows g and g + 8, keys 8n + {2j, 2j+1}
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = 0;
#pragma unroll
    for (int b = 0; b < T::kSlices; ++b) {
      SliceWords<T::kLaneElements / 2> k;
      k.Load(keys + (n * T::kSlices + b) * 8 * T::kSlice);
#pragma unroll
      for (int step = 0; step < T::kSteps; ++step) {
        Mma(s[n], q.row[0][b].w[2 * step], q.row[1][b].w[2 * step], q.row[0][b].w[2 * step + 1],
            q.row[1][b].w[2 * step + 1], k.w[2 * step], k.w[2 * step + 1]);
      }
    }
  }
  if (valid < first + kKeys) {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + 8 * n + lane % 4 * 2 + i % 2 >= valid) s[n][i] = -INFINITY;
      }
    }
  }
  Exponentiate<kHeadDim>(s, state);
  const uint16_t* values = key_block + (kKeyBlockKeys + first) * kHeadDim + lane * 8;
#pragma unroll
  for (int g = 0; g < kKeys / 16; ++g) {
    const float(&p)[4] = s[2 * g];
    const float(&next)[4] = s[2 * g + 1];
    const uint32_t a[4] = {PackBf16(p[0], p[1]), PackBf16(p[2], p[3]), PackBf16(next[0], next[1]),
                           PackBf16(next[2], next[3])};
#pragma unroll
    for (int n = 0; n < T::kColumns; n += 2) {
      const Words4 v = LoadAs<Words4>(values + (g * (kHeadDim / 16) + n / 2) * 256);
      Mma(state.o[n], a[0], a[1], a[2], a[3], v.w[0], v.w[1]);
      Mma(state.o[n + 1], a[0], a[1], a[2], a[3], v.w[2], v.w[3]);
    }
  }
}

// Attends to a key block in shared memory, of which the first `valid` keys, at least one, count.
template <int kHeadDim>
__device__ __forceinline__ void AttendKeyBlock(const uint16_t* key_block, int valid,
                                               const Queries<kHeadDim>& q,
                                               RowState<kHeadDim>& state) {
#pragma unroll 1
  for (int key = 0; key < kKeyBlockKeys; key += AttentionTraits<kHeadDim>::kKeys) {
    AttendKeys(key_block, key, valid, q, state);
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ATTEND_KEYS_CUH_
