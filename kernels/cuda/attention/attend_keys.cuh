// Attention of a warp's 16 rows to keys of a context in shared memory, by mma.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ATTEND_KEYS_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_ATTEND_KEYS_CUH_

#include "kernels/cuda/attention/key_log_weights.cuh"
#include "kernels/cuda/attention/shifted_softmax.cuh"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/ldmatrix.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// Products of a warp with key blocks in shared memory. Sums have the order, and so the bits, of
// WgmmaKeys. A lane's scores are of its rows g and g + 8, columns 8n + {2j, 2j+1}. Addresses are
// in shared memory.
template <int kHeadDim>
struct MmaKeys {
  using T = AttentionTraits<kHeadDim>;
  using Scores = float[T::kKeys / 8][4];
  using Sums = float[T::kColumns][4];

  // s = q K, of kKeys keys from `first` on.
  __device__ __forceinline__ static void MultiplyKeys(const Queries<kHeadDim>& q,
                                                      uint32_t key_block, int first, Scores& s) {
    constexpr int kTogether = kHeadDim < 32 ? 2 : 1;  // times 8 keys
#pragma unroll
    for (int n = 0; n < T::kKeys / 8; n += kTogether) {
#pragma unroll
      for (int i = 0; i < 4 * kTogether; ++i) s[n + i / 4][i % 4] = 0;
#pragma unroll
      for (int d = 0; d < kHeadDim; d += 32) {
        // Four matrices of 8 keys and 8 columns.
        const int matrix = LaneIndex() / 8;
        const int key = first + 8 * n + LaneIndex() % 8 + (kTogether == 2 ? matrix / 2 * 8 : 0);
        const int column = d + (kTogether == 2 ? matrix % 2 : matrix) * 8;
        uint32_t k[4];
        LoadMatrices(key_block + 2 * KeyBlockKeyAt(key, column, kHeadDim), k);
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          const uint32_t(&a)[4] = q.step[kTogether == 2 ? 0 : d / 16 + i / 2];
          Mma(s[kTogether == 2 ? n + i / 2 : n], a[0], a[1], a[2], a[3], k[i], k[i + 1]);
        }
      }
    }
  }

  // Scores of keys from `valid` on become -inf.
  __device__ __forceinline__ static void Mask(Scores& s, int valid) {
#pragma unroll
    for (int n = 0; n < T::kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (8 * n + LaneIndex() % 4 * 2 + i % 2 >= valid) s[n][i] = -INFINITY;
      }
    }
  }

  // o += weights V, of kKeys keys from `first` on.
  __device__ __forceinline__ static void MultiplyValues(const Scores& weights, uint32_t key_block,
                                                        int first, Sums& o) {
#pragma unroll
    for (int n = 0; n < T::kKeys / 8; n += 4) {
      uint32_t a[2][4];  // of 32 keys
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float(&w)[4] = weights[n + i / 2];
        a[i / 4][i % 4] = PackBf16(w[i % 2 * 2], w[i % 2 * 2 + 1]);
      }
#pragma unroll
      for (int column = 0; column < T::kColumns; column += kHeadDim < 32 ? 2 : 1) {
        MultiplyColumns(a, key_block, first + 8 * n, column, o);
      }
    }
  }

 private:
  // 32 keys, 8 columns; 16 of a narrow head.
  __device__ __forceinline__ static void MultiplyColumns(const uint32_t (&a)[2][4],
                                                         uint32_t key_block, int key, int column,
                                                         Sums& o) {
    if constexpr (kHeadDim < 32) {
      const char* const values = DynamicSmem() + (key_block - SmemAddress(DynamicSmem()));
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const Words4 v = LoadAs<Words4>(reinterpret_cast<const uint16_t*>(values) +
                                        KeyBlockValueAt(key + 16 * step, 8 * column, kHeadDim) +
                                        LaneIndex() * 8);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          Mma(o[column + i], a[step][0], a[step][1], a[step][2], a[step][3], v.w[2 * i],
              v.w[2 * i + 1]);
        }
      }
    } else {
      uint32_t v[4];  // four matrices of 8 columns and 8 keys
      LoadMatrices(key_block + 2 * KeyBlockValueAt(key + LaneIndex() / 8 * 8,
                                                   8 * column + LaneIndex() % 8, kHeadDim),
                   v);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        Mma(o[column], a[step][0], a[step][1], a[step][2], a[step][3], v[2 * step],
            v[2 * step + 1]);
      }
    }
  }
};

// Attends to a key block in shared memory, of which the first `left` keys, at least one, count: all
// 64 if there are more. `log_weights`: of all keys, KeyLogWeights or NoLogWeights.
template <bool kShifted, int kHeadDim, typename Weights>
__device__ __forceinline__ void AttendKeyBlock(uint32_t key_block, int left,
                                               const Weights& log_weights,
                                               const Queries<kHeadDim>& q, ShiftedSoftmax& softmax,
                                               typename MmaKeys<kHeadDim>::Sums& o) {
  using Keys = MmaKeys<kHeadDim>;
  constexpr int kKeys = AttentionTraits<kHeadDim>::kKeys;
#pragma unroll 1
  for (int first = 0; first < kKeyBlockKeys; first += kKeys) {
    typename Keys::Scores s;
    Keys::MultiplyKeys(q, key_block, first, s);
    auto& scores = reinterpret_cast<float(&)[kKeys / 2]>(s);
    log_weights.LoadAndAdd(left, first, scores);
    if (left < first + kKeys) Keys::Mask(s, left - first);
    if (kShifted && softmax.Shift(scores)) {
#pragma unroll
      for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) o[n][i] *= softmax.scale[i / 2];
      }
    }
    softmax.Exponentiate(scores);
    Keys::MultiplyValues(s, key_block, first, o);
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ATTEND_KEYS_CUH_
