// Attention of rows from the states of their splits, by whichever kernel takes it up.
#ifndef CHORALE_KERNELS_CUDA_LAYER_COMBINE_SPLITS_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_COMBINE_SPLITS_CUH_

#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"

namespace chorale::kernels::cuda {

// Four elements of each of kTogether rows: what the splits so far were merged to.
template <int kTogether>
struct CombiningRows {
  float m[kTogether];
  float l[kTogether];
  Floats4 o[kTogether];
};

// Where the first split's states lie, of the head of four columns of a row.
struct PartialSource {
  const float* state = nullptr;  // m and l
  const float* o = nullptr;
  int64_t next_state = 0;  // from a split to the next one
  int64_t next_o = 0;

  PartialSource() = default;

  // Of row `row` of all tiles, columns `column` to column + 3.
  __device__ __forceinline__ PartialSource(const LayerParams& p, int64_t row, int column,
                                           int head_shift)
      : state(p.partial_ml + (row * p.heads + (column >> head_shift)) * 2),
        o(p.partial_o + row * p.heads * p.head_dim + column),
        next_state(static_cast<int64_t>(p.tile_count) * kTileRows * p.heads * 2),
        next_o(next_state / 2 * p.head_dim) {}

  // Ahead of a wait.
  __device__ __forceinline__ void Compute() {
    PinValue(state);
    PinValue(o);
    PinValue(next_state);
    PinValue(next_o);
  }

  // Of a row `rows` rows further on, and of columns `columns` further on, whole heads.
  __device__ __forceinline__ PartialSource At(const LayerParams& p, int rows, int columns,
                                              int head_shift) const {
    PartialSource source = *this;
    source.state += (rows * p.heads + (columns >> head_shift)) * 2;
    source.o += rows * p.heads * p.head_dim + columns;
    return source;
  }
};

// Merges kSplits splits more, which are loaded together.
template <int kSplits, int kTogether>
__device__ __forceinline__ void CombineMore(PartialSource& from, int next_row_state, int next_row_o,
                                            CombiningRows<kTogether>& rows) {
  Floats2 state[kSplits][kTogether];
  Floats4 split[kSplits][kTogether];
#pragma unroll
  for (int i = 0; i < kSplits; ++i) {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      state[i][r] = LoadCg<Floats2>(from.state + r * next_row_state);
      split[i][r] = LoadCg<Floats4>(from.o + r * next_row_o);
    }
    from.state += from.next_state;
    from.o += from.next_o;
  }
#pragma unroll
  for (int i = 0; i < kSplits; ++i) {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const CombineScale scale = CombineMax(rows.m[r], state[i][r].v[0]);
      rows.l[r] = CombineSum(rows.l[r], state[i][r].v[1], scale);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        rows.o[r].v[k] = CombineSum(rows.o[r].v[k], split[i][r].v[k], scale);
      }
    }
  }
}

// Four elements of each of kTogether rows, of which the first one's states are at `from` and the
// others `apart` rows apart: the states of `num_splits` splits merged in their order, up to kSplits
// of them loaded at a time (1, or a multiple of kMinSplits), and divided.
template <int kTogether, int kSplits>
__device__ __forceinline__ void CombineElements(const LayerParams& p, int num_splits,
                                                PartialSource from, int apart,
                                                Floats4 (&o)[kTogether]) {
  const int next_state = apart * p.heads * 2;
  const int next_o = apart * p.heads * p.head_dim;
  CombiningRows<kTogether> rows;
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    rows.m[r] = -INFINITY;
    rows.l[r] = 0;
    rows.o[r] = {};
  }
  if constexpr (kSplits > kMinSplits) {
#pragma unroll 1
    for (; num_splits >= kSplits; num_splits -= kSplits)
      CombineMore<kSplits>(from, next_state, next_o, rows);
  }
  if constexpr (kSplits > 1) {
#pragma unroll 1
    for (; num_splits >= kMinSplits; num_splits -= kMinSplits) {
      CombineMore<kMinSplits>(from, next_state, next_o, rows);
    }
  }
#pragma unroll 1
  for (; num_splits > 0; --num_splits) CombineMore<1>(from, next_state, next_o, rows);
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    const float l = rows.l[r];
    const float divisor = l > 0 ? Rcp(l) : 0.0f;  // no key at all: attention is 0
#pragma unroll
    for (int k = 0; k < 4; ++k) o[r].v[k] = rows.o[r].v[k] * divisor;
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_COMBINE_SPLITS_CUH_
