// Attention of a warp's 16 rows to keys of a context in shared memory.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ATTEND_KEYS_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_ATTEND_KEYS_CUH_

#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/fragments.h"
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

// The key of a column of scores, of the n-th 8 columns. In swizzled heads lane j takes 8
// neighbouring keys of 32, so that its 16 bytes of a column of V fill the operands of two products.
template <int kHeadDim>
__device__ __forceinline__ int KeyOfColumn(int n, int column) {
  if constexpr (!IsSwizzledHead(kHeadDim)) return 8 * n + column;
  return n / 4 * 32 + column / 2 * 8 + n % 4 * 2 + column % 2;
}

// Where a lane's elements lie in the first slice of the K that is its column.
template <int kHeadDim>
__device__ __forceinline__ int LaneKeyAt(int n, int lane) {
  using T = AttentionTraits<kHeadDim>;
  constexpr int kSliceKeys = T::kSlices * 8 * T::kSlice;  // 8 keys
  if constexpr (!IsSwizzledHead(kHeadDim)) return n * kSliceKeys + lane * T::kLaneElements;
  return (n / 4 * 4 + lane / 8) * kSliceKeys +
         SwizzledAt(n % 4 * 2 + lane / 4 % 2, lane % 4 * T::kLaneElements);
}

// o += weights times values, of 32 keys.
template <int kHeadDim>
__device__ __forceinline__ void AddSwizzledValues(const uint16_t* values, const uint32_t (&a)[2][4],
                                                  RowState<kHeadDim>& state) {
  const uint16_t* of_lane = values + SwizzledAt(LaneIndex() / 4, LaneIndex() % 4 * 8);
#pragma unroll
  for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; n += 2) {
    const Words4 v[2] = {LoadAs<Words4>(of_lane + n * kSwizzledRows),
                         LoadAs<Words4>(of_lane + (n + 1) * kSwizzledRows)};
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        Mma(state.o[n + i], a[step][0], a[step][1], a[step][2], a[step][3], v[i].w[2 * step],
            v[i].w[2 * step + 1]);
      }
    }
  }
}

// Weights of two times 8 columns as an operand of the product with values.
__device__ __forceinline__ void PackWeights(const float (&p)[4], const float (&next)[4],
                                            uint32_t (&a)[4]) {
  a[0] = PackBf16(p[0], p[1]);
  a[1] = PackBf16(p[2], p[3]);
  a[2] = PackBf16(next[0], next[1]);
  a[3] = PackBf16(next[2], next[3]);
}

// Attends to kKeys keys of a key block in shared memory, from `first` on. Keys from `valid` on are
// ignored. REQUIRES: the rows have attended to a key before, or first < valid.
template <int kHeadDim>
__device__ __forceinline__ void AttendKeys(const uint16_t* key_block, int first, int valid,
                                           const Queries<kHeadDim>& q, RowState<kHeadDim>& state) {
  using T = AttentionTraits<kHeadDim>;
  constexpr int kKeys = T::kKeys;
  const int lane = LaneIndex();
  const uint16_t* keys = key_block + first * kHeadDim;
  float s[kKeys / 8][4];  // scores of rows g and g + 8, columns 8n + {2j, 2j+1}
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = 0;
    const uint16_t* of_lane = keys + LaneKeyAt<kHeadDim>(n, lane);
#pragma unroll
    for (int b = 0; b < T::kSlices; ++b) {
      SliceWords<T::kLaneElements / 2> k;
      k.Load(of_lane + b * 8 * T::kSlice);
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
        if (first + KeyOfColumn<kHeadDim>(n, lane % 4 * 2 + i % 2) >= valid) s[n][i] = -INFINITY;
      }
    }
  }
  Exponentiate<kHeadDim>(s, state);
  const uint16_t* values = key_block + (kKeyBlockKeys + first) * kHeadDim;
  if constexpr (IsSwizzledHead(kHeadDim)) {
#pragma unroll
    for (int n = 0; n < kKeys / 8; n += 4) {
      uint32_t a[2][4];
      PackWeights(s[n], s[n + 1], a[0]);
      PackWeights(s[n + 2], s[n + 3], a[1]);
      AddSwizzledValues(values + n * 8 * kHeadDim, a, state);
    }
  } else {
#pragma unroll
    for (int g = 0; g < kKeys / 16; ++g) {
      uint32_t a[4];
      PackWeights(s[2 * g], s[2 * g + 1], a);
#pragma unroll
      for (int n = 0; n < T::kColumns; n += 2) {
        const Words4 v = LoadAs<Words4>(values + lane * 8 + (g * (kHeadDim / 16) + n / 2) * 256);
        Mma(state.o[n], a[0], a[1], a[2], a[3], v.w[0], v.w[1]);
        Mma(state.o[n + 1], a[0], a[1], a[2], a[3], v.w[2], v.w[3]);
      }
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
