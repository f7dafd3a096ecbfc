// A lane's part of the attention kernel's queries and softmax states.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_SOFTMAX_STATE_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_SOFTMAX_STATE_CUH_

#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/ldmatrix.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

template <int kHeadDim>
struct AttentionTraits {
  static constexpr int kSteps = kHeadDim / 16;   // mma along the head, for scores
  static constexpr int kColumns = kHeadDim / 8;  // mma along the head, for V
  static constexpr int kKeyBlockBytes = static_cast<int>(KeyBlockSize(kHeadDim)) * 2;
  // Keys of a key block that are processed together. Wide heads leave fewer registers for their
  // scores.
  static constexpr int kKeys = kHeadDim <= 64 ? kKeyBlockKeys : kKeyBlockKeys / 2;
};

// A lane's part of the softmax states of a warp's 16 rows: m and l of rows g and g + 8, o of their
// columns 8n + {2j, 2j+1}. m has the same bits in the four lanes of a row; l is this lane's partial
// sum until FinishSplit.
template <int kHeadDim>
struct RowState {
  float m[2];
  float l[2];
  float o[AttentionTraits<kHeadDim>::kColumns][4];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      m[half] = -INFINITY;
      l[half] = 0;
    }
#pragma unroll
    for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[n][i] = 0;
    }
  }

  // Raises m to at least `largest` and rescales l and o. Before the first key m is -inf, and
  // 2^-inf = 0 scales zeros.
  __device__ __forceinline__ void RaiseMaximum(int half, float largest) {
    const float raised = fmaxf(m[half], largest);
    const float scale = raised == -INFINITY ? 1.0f : Exp2(m[half] - raised);
    m[half] = raised;
    l[half] *= scale;
#pragma unroll
    for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
      o[n][2 * half] *= scale;
      o[n][2 * half + 1] *= scale;
    }
  }

  // Adds up l over the four lanes of a row.
  __device__ __forceinline__ void FinishSplit() {
#pragma unroll
    for (int half = 0; half < 2; ++half) l[half] = SumOverLanes<4>(l[half]);
  }

  // Combines with further splits. REQUIRES: more.FinishSplit() was called.
  __device__ __forceinline__ void Combine(const RowState& more) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const CombineScale scale = CombineMax(m[half], more.m[half]);
      l[half] = CombineSum(l[half], more.l[half], scale);
#pragma unroll
      for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          o[n][i] = CombineSum(o[n][i], more.o[n][i], scale);
        }
      }
    }
  }
};

// The state of a lane's rows, combined over the splits so far. In shared memory, since it is used
// once a split, and its registers would cost the multiprocessor a block, or for another thread. The
// floats of kThreads threads are interleaved.
template <int kHeadDim, int kThreads>
class CombinedState {
  using T = AttentionTraits<kHeadDim>;

 public:
  static constexpr int kSumsBytes = 4 * 4 * T::kColumns * kThreads;  // of o
  static constexpr int kMlBytes = 4 * 4 * kThreads;                  // of m and l
  static constexpr int kBytes = kSumsBytes + kMlBytes;

  // `sums` and `ml`: shared by all threads. `thread`: below kThreads.
  __device__ __forceinline__ CombinedState(char* sums, char* ml, int thread)
      : sums_(reinterpret_cast<float*>(sums) + thread),
        ml_(reinterpret_cast<float*>(ml) + thread) {}

  // m, l and o of row g (half 0) or g + 8; o of columns 8 (i / 2) + {2j, 2j+1}.
  __device__ __forceinline__ float& M(int half) const { return ml_[2 * half * kThreads]; }
  __device__ __forceinline__ float& L(int half) const { return ml_[(2 * half + 1) * kThreads]; }
  __device__ __forceinline__ float& O(int half, int i) const {
    return sums_[(half * 2 * T::kColumns + i) * kThreads];
  }

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      M(half) = -INFINITY;
      L(half) = 0;
#pragma unroll
      for (int i = 0; i < 2 * T::kColumns; ++i) O(half, i) = 0;
    }
  }

  // Combines with a split. REQUIRES: split.FinishSplit() was called.
  __device__ __forceinline__ void Combine(const RowState<kHeadDim>& split) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const CombineScale scale = CombineMax(M(half), split.m[half]);
      L(half) = CombineSum(L(half), split.l[half], scale);
#pragma unroll
      for (int i = 0; i < 2 * T::kColumns; ++i) {
        O(half, i) = CombineSum(O(half, i), split.o[i / 2][2 * half + i % 2], scale);
      }
    }
  }

  __device__ __forceinline__ void Load(RowState<kHeadDim>& state) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.m[half] = M(half);
      state.l[half] = L(half);
#pragma unroll
      for (int i = 0; i < 2 * T::kColumns; ++i) state.o[i / 2][2 * half + i % 2] = O(half, i);
    }
  }

 private:
  float* const sums_;
  float* const ml_;
};

// A lane's elements of the queries of a warp's 16 rows: operands A of a product for each 16
// columns.
template <int kHeadDim>
struct Queries {
  uint32_t step[kHeadDim / 16][4];

  // `q` is the head of the group's first row; rows are row_stride elements apart.
  __device__ __forceinline__ void Load(const uint16_t* q, int row_stride) {
    const uint16_t* const of_lane = q + LaneIndex() / 4 * row_stride + LaneIndex() % 4 * 2;
#pragma unroll
    for (int s = 0; s < kHeadDim / 16; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        step[s][i] = LoadCg<uint32_t>(of_lane + i % 2 * 8 * row_stride + 16 * s + i / 2 * 8);
      }
    }
  }
  // The same from shared memory, where the rows of a tile are in the order of the keys of a key
  // block. REQUIRES: kHeadDim >= 32.
  __device__ __forceinline__ void LoadShared(uint32_t tile, int group) {
    const int row = group * kGroupRows + LaneIndex() % 16;
#pragma unroll
    for (int s = 0; s < kHeadDim / 16; ++s) {
      LoadMatrices(tile + 2 * KeyBlockKeyAt(row, 16 * s + LaneIndex() / 16 * 8, kHeadDim), step[s]);
    }
  }
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_SOFTMAX_STATE_CUH_
