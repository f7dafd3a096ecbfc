// What a lane of the attention kernel holds: its share of queries, keys and softmax states.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_SOFTMAX_STATE_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_SOFTMAX_STATE_CUH_

#include <type_traits>

#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

template <int kHeadDim>
struct AttentionTraits {
  static constexpr int kSlice = HeadSlice(kHeadDim);
  static constexpr int kSlices = kHeadDim / kSlice;
  static constexpr int kLaneElements = kSlice / 4;  // of a slice, with one lane
  static constexpr int kSteps = kSlice / 16;        // instructions along a slice
  static constexpr int kColumns = kHeadDim / 8;     // instructions along the head, for V
  static constexpr int kBlockBytes = static_cast<int>(KeyBlockSize(kHeadDim)) * 2;
  // Keys of a block, and positions of a buffer, whose scores a lane holds at a time: wide heads
  // leave fewer registers.
  static constexpr int kKeys = kHeadDim <= 64 ? kKeyBlockKeys : kKeyBlockKeys / 2;
  static constexpr int kPositions = kHeadDim == 16 ? 4 : kHeadDim <= 64 ? 2 : 1;
  // Whether the first positions are asked for before the context is attended to.
  static constexpr bool kPrefetchPositions = kHeadDim <= 64;
};

// What one lane holds of a warp's 16 rows: m and l of rows g and g + 8, o of their columns
// 8n + {2j, 2j+1}. m has the same bits in the four lanes of a row; l is this lane's share until
// FinishSplit.
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

  // Makes room for scores up to `largest`: scales all that is summed so far. With no key yet, m is
  // -inf: 2^-inf = 0 scales zeros.
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

  __device__ __forceinline__ void FinishSplit() {
#pragma unroll
    for (int half = 0; half < 2; ++half) l[half] = SumOverLanes<4>(l[half]);
  }
};

// What the splits of a lane's rows were merged to so far: in shared memory, since it is touched
// once a split and would take the registers of another block. Of kThreads threads, whose floats lie
// side by side.
template <int kHeadDim, int kThreads>
class CombinedState {
  using T = AttentionTraits<kHeadDim>;

 public:
  static constexpr int kBytes = 4 * (4 + 4 * T::kColumns) * kThreads;

  // `memory`: of all threads, kBytes.
  __device__ __forceinline__ explicit CombinedState(float* memory) : own_(memory + ThreadIndex()) {}

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      At(half, 0) = -INFINITY;
#pragma unroll
      for (int i = 1; i < kHalf; ++i) At(half, i) = 0;
    }
  }

  // Merges a split, which becomes what all are merged to. REQUIRES: FinishSplit was called on it.
  __device__ __forceinline__ void Merge(RowState<kHeadDim>& split) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float m = At(half, 0);
      const CombineScale scale = CombineMax(m, split.m[half]);
      split.m[half] = At(half, 0) = m;
      split.l[half] = At(half, 1) = CombineSum(At(half, 1), split.l[half], scale);
#pragma unroll
      for (int n = 0; n < T::kColumns; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& o = split.o[n][2 * half + i];
          float& combined = At(half, 2 + 2 * n + i);
          o = combined = CombineSum(combined, o, scale);
        }
      }
    }
  }

 private:
  static constexpr int kHalf = 2 + 2 * T::kColumns;  // m, l and o of a row

  __device__ __forceinline__ float& At(int half, int i) {
    return own_[(half * kHalf + i) * kThreads];
  }

  float* const own_;
};

// A lane's share of one slice of a row: two or four words of two bf16 each.
template <int kWords>
struct SliceWords {
  uint32_t w[kWords];

  using Access = std::conditional_t<kWords == 4, Words4, Words2>;

  __device__ __forceinline__ void Load(const uint16_t* from) { Set(LoadAs<Access>(from)); }
  __device__ __forceinline__ void LoadNew(const uint16_t* from) { Set(LoadCg<Access>(from)); }

 private:
  __device__ __forceinline__ void Set(const Access& words) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) w[i] = words.w[i];
  }
};

template <int kHeadDim>
struct Queries {
  using T = AttentionTraits<kHeadDim>;
  SliceWords<T::kLaneElements / 2> row[2][T::kSlices];  // rows g and g + 8

  // `q` is the head of the group's first row; rows lie row_stride apart.
  __device__ __forceinline__ void Load(const uint16_t* q, int row_stride, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint16_t* from = q + (lane / 4 + 8 * half) * row_stride + lane % 4 * T::kLaneElements;
#pragma unroll
      for (int s = 0; s < T::kSlices; ++s) row[half][s].LoadNew(from + s * T::kSlice);
    }
  }
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_SOFTMAX_STATE_CUH_
