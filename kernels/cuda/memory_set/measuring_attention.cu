#include <cassert>
#include <cmath>
#include <initializer_list>

#include "base/integer_math.h"
#include "kernels/cuda/attention/attend_keys.cuh"
#include "kernels/cuda/attention/context_stream.cuh"
#include "kernels/cuda/attention/key_log_weights.cuh"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/memory_set/measuring_attention.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kThreads = kTileGroups * kWarpSize;  // one warp for each group of rows

template <int kHeadDim>
struct Shape {
  static constexpr int kStages = kHeadDim > 64 ? 2 : 3;
  static constexpr int kSharedBytes = kStages * AttentionTraits<kHeadDim>::kKeyBlockBytes;
};

// One head of a warp's 16 rows.
template <int kHeadDim>
class MeasuringRows {
  using T = AttentionTraits<kHeadDim>;
  using Keys = MmaKeys<kHeadDim>;

 public:
  // `first_row`: of the warp.
  __device__ __forceinline__ MeasuringRows(const MeasuringAttentionParams& p, int head, int kv_head,
                                           int first_row)
      : p_(p), head_(head), row_(first_row + LaneIndex() / 4) {
    q_.Load(p.q + first_row * p.q_stride + head * kHeadDim, static_cast<int>(p.q_stride));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      hidden_[half] = -1;
      if (row_ + 8 * half >= p.rows) continue;
      hidden_[half] =
          LoadCg<int32_t>(p.hidden_places + (row_ + 8 * half) * p.shape.kv_heads + kv_head);
    }
    state_.Clear();
  }

  // Attends to a key block in shared memory, which begins in place `place`, and of which the first
  // `valid` places, at least one, count.
  __device__ __forceinline__ void Attend(uint32_t key_block, int place, int valid,
                                         const KeyLogWeights& log_weights) {
#pragma unroll 1
    for (int first = 0; first < kKeyBlockKeys; first += T::kKeys) {
      typename Keys::Scores s;
      Keys::MultiplyKeys(q_, key_block, first, s);
      log_weights.AddTo(reinterpret_cast<float(&)[T::kKeys / 2]>(s), first);
      if (valid < first + T::kKeys) Keys::Mask(s, valid - first);
      Hide(s, place + first);
      Exponentiate(s);
      Keys::MultiplyValues(s, key_block, first, state_.o);
      ToRest(s);
      Keys::MultiplyValues(s, key_block, first, state_.o);
    }
  }

  __device__ __forceinline__ void Store() {
    state_.FinishSplit();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_ + 8 * half;
      const int64_t at = int64_t{row} * p_.shape.heads + head_;
      const bool has_key = state_.l[half] > 0;
      const float divisor = has_key ? 1.0f / state_.l[half] : 0.0f;
#pragma unroll
      for (int n = 0; n < T::kColumns; ++n) {
        const int64_t to = at * kHeadDim + 8 * n + LaneIndex() % 4 * 2;
        const Floats2 o = {state_.o[n][2 * half] * divisor, state_.o[n][2 * half + 1] * divisor};
        StoreAs<uint32_t>(p_.attended + to, PackBf16(o.v[0], o.v[1]));
        if (row < p_.rows) StoreAs<Floats2>(p_.out + to, o);
      }
      if (row < p_.rows && LaneIndex() % 4 == 0) {
        p_.lse[at] = has_key ? state_.m[half] + log2f(state_.l[half]) : -INFINITY;
      }
    }
  }

 private:
  // Scores of the rows' hidden keys become -inf. `place`: of the first score's key.
  __device__ __forceinline__ void Hide(typename Keys::Scores& s, int place) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = hidden_[half] - place - LaneIndex() % 4 * 2;
      if (hidden_[half] < place || hidden_[half] >= place + T::kKeys) continue;
#pragma unroll
      for (int n = 0; n < T::kKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (column == 8 * n + i) s[n][2 * half + i] = -INFINITY;
        }
      }
    }
  }

  // s = 2^(s - m), added to l, with m the maximum so far.
  __device__ __forceinline__ void Exponentiate(typename Keys::Scores& s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
#pragma unroll
      for (int n = 0; n < T::kKeys / 8; ++n) {
        largest = fmaxf(largest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      }
      state_.RaiseMaximum(half, MaxOverLanes<4>(largest));
      // Without any key so far, scores and m are -inf.
      const float m = state_.m[half] == -INFINITY ? 0.0f : state_.m[half];
#pragma unroll
      for (int n = 0; n < T::kKeys / 8; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          s[n][i] = Exp2(s[n][i] - m);
          state_.l[half] += s[n][i];
        }
      }
    }
  }

  // What rounding to bf16 takes from the weights.
  __device__ __forceinline__ static void ToRest(typename Keys::Scores& weights) {
#pragma unroll
    for (int n = 0; n < T::kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const uint32_t rounded = PackBf16(weights[n][i], weights[n][i + 1]);
        weights[n][i] -= FirstBf16(rounded);
        weights[n][i + 1] -= SecondBf16(rounded);
      }
    }
  }

  const MeasuringAttentionParams& p_;
  const int head_;
  const int row_;  // row g of the lane; the other is 8 rows below
  int hidden_[2];  // of these rows
  Queries<kHeadDim> q_;
  RowState<kHeadDim> state_;
};

// Grid: x tiles, y heads. A block computes one head of 64 rows, a warp 16 of them. Keys and values
// are copied to shared memory once and read by all warps; queries and states stay in registers.
//
// -inf: scores of hidden keys and of keys that are not there; where all scores so far are -inf, m
// counts as 0, and weights are 0.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    MeasuringAttentionKernel(const __grid_constant__ MeasuringAttentionParams p) {
  GridDepLaunch();
  GridDepWait();
  const int head = blockIdx.y;
  const int kv_head = head / (p.shape.heads / p.shape.kv_heads);
  const int first_row = blockIdx.x * kTileRows + WarpIndex() * kGroupRows;
  const bool in_use = first_row < p.rows;
  const int places = p.keys.places();
  const auto key_blocks = static_cast<int>(ContextKeyBlocks(places));
  ContextStream<kHeadDim, Shape<kHeadDim>::kStages, kThreads> keys(
      p.keys.kv + ContextKeyBlockAt(/*layer=*/0, kv_head, /*key_block=*/0, places, p.shape.kv_heads,
                                    kHeadDim),
      /*first=*/0, key_blocks);
  keys.Begin();
  Tile context;
  context.context_log_weights = p.keys.log_weights;
  context.context_rows = places;
  context.context_capacity = places;
  KeyLogWeights log_weights(context, /*layer=*/0, kv_head, p.shape.kv_heads);
  MeasuringRows<kHeadDim> rows(p, head, kv_head, first_row);
#pragma unroll 1
  for (int key_block = 0; key_block < key_blocks; ++key_block) {
    const int place = key_block * kKeyBlockKeys;
    log_weights.Fetch(places - place);
    const uint32_t at = keys.Take(key_block);
    if (in_use) rows.Attend(at, place, min(kKeyBlockKeys, places - place), log_weights);
  }
  keys.End();
  if (in_use) rows.Store();
}

template <int kHeadDim>
ErrorCode LaunchAs(const MeasuringAttentionParams& params, Stream stream) {
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(params.rows, kTileRows)),
      .blocks_y = params.shape.heads,
      .threads = kThreads,
      .shared_bytes = Shape<kHeadDim>::kSharedBytes,
  };
  return Launch(&MeasuringAttentionKernel<kHeadDim>, shape, stream, params);
}

}  // namespace

ErrorCode LoadMeasuringAttentionKernels(int shared_bytes) {
  for (const auto kernel : {&MeasuringAttentionKernel<16>, &MeasuringAttentionKernel<32>,
                            &MeasuringAttentionKernel<64>, &MeasuringAttentionKernel<128>}) {
    if (const ErrorCode error = LoadKernel(kernel, shared_bytes); error != 0) return error;
  }
  return 0;
}

ErrorCode LaunchMeasuringAttention(const MeasuringAttentionParams& params, Stream stream) {
  assert(ValidateMeasuringAttention(params).ok());
  switch (params.shape.head_dim) {
    case 16:
      return LaunchAs<16>(params, stream);
    case 32:
      return LaunchAs<32>(params, stream);
    case 64:
      return LaunchAs<64>(params, stream);
    default:
      return LaunchAs<128>(params, stream);
  }
}

}  // namespace chorale::kernels::cuda
