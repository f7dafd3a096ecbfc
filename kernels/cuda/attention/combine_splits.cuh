// Attention of rows from the states of their chunks, by whichever kernel takes it up.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_COMBINE_SPLITS_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_COMBINE_SPLITS_CUH_

#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"

namespace chorale::kernels::cuda {

// Four elements of each of kTogether rows: what the chunks so far were merged to.
template <int kTogether>
struct MergingRows {
  float m[kTogether];
  float l[kTogether];
  Floats4 o[kTogether];
};

// Where the first chunk's states lie, of the head of four columns of a row.
struct ChunkSource {
  const float* state = nullptr;  // m and l
  const float* o = nullptr;
  int64_t next_state = 0;  // from a chunk to the next one
  int64_t next_o = 0;

  ChunkSource() = default;

  // Of row `row` of all tiles, columns `column` to column + 3.
  __device__ __forceinline__ ChunkSource(const RowLayerParams& p, int64_t row, int column,
                                         int head_shift)
      : state(p.chunk_state + (row * p.heads + (column >> head_shift)) * 2),
        o(p.chunk_o + row * p.heads * p.head_dim + column),
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
  __device__ __forceinline__ ChunkSource At(const RowLayerParams& p, int rows, int columns,
                                            int head_shift) const {
    ChunkSource source = *this;
    source.state += (rows * p.heads + (columns >> head_shift)) * 2;
    source.o += rows * p.heads * p.head_dim + columns;
    return source;
  }
};

// Merges kChunks chunks more, which are loaded together.
template <int kChunks, int kTogether>
__device__ __forceinline__ void MergeMore(ChunkSource& from, int next_row_state, int next_row_o,
                                          MergingRows<kTogether>& rows) {
  Floats2 state[kChunks][kTogether];
  Floats4 chunk[kChunks][kTogether];
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      state[i][r] = LoadCg<Floats2>(from.state + r * next_row_state);
      chunk[i][r] = LoadCg<Floats4>(from.o + r * next_row_o);
    }
    from.state += from.next_state;
    from.o += from.next_o;
  }
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const MergeScale scale = MergeMaximum(rows.m[r], state[i][r].v[0]);
      rows.l[r] = MergeSum(rows.l[r], state[i][r].v[1], scale);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        rows.o[r].v[k] = MergeSum(rows.o[r].v[k], chunk[i][r].v[k], scale);
      }
    }
  }
}

// Four elements of each of kTogether rows, of which the first one's states are at `from` and the
// others `apart` rows apart: the states of `slots` chunks merged in their order, up to kChunks of
// them loaded at a time (1, or a multiple of kFewestChunks), and divided.
template <int kTogether, int kChunks>
__device__ __forceinline__ void MergeElements(const RowLayerParams& p, int slots, ChunkSource from,
                                              int apart, Floats4 (&o)[kTogether]) {
  const int next_state = apart * p.heads * 2;
  const int next_o = apart * p.heads * p.head_dim;
  MergingRows<kTogether> rows;
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    rows.m[r] = -INFINITY;
    rows.l[r] = 0;
    rows.o[r] = {};
  }
  if constexpr (kChunks > kFewestChunks) {
#pragma unroll 1
    for (; slots >= kChunks; slots -= kChunks) MergeMore<kChunks>(from, next_state, next_o, rows);
  }
  if constexpr (kChunks > 1) {
#pragma unroll 1
    for (; slots >= kFewestChunks; slots -= kFewestChunks) {
      MergeMore<kFewestChunks>(from, next_state, next_o, rows);
    }
  }
#pragma unroll 1
  for (; slots > 0; --slots) MergeMore<1>(from, next_state, next_o, rows);
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    const float l = rows.l[r];
    const float divisor = l > 0 ? Rcp(l) : 0.0f;  // no key at all: attention is 0
#pragma unroll
    for (int k = 0; k < 4; ++k) o[r].v[k] = rows.o[r].v[k] * divisor;
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_COMBINE_SPLITS_CUH_
