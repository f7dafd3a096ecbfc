// Attention of rows from the states of their chunks, by whichever kernel takes it up.
#ifndef CHORALE_KERNELS_CUDA_MERGE_CHUNKS_CUH_
#define CHORALE_KERNELS_CUDA_MERGE_CHUNKS_CUH_

#include "kernels/cuda/chunk_state.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/row_layer.h"

namespace chorale::kernels::cuda {

// Four elements of each of kTogether rows, `apart` rows apart from `row` of all tiles on: the
// states of `slots` chunks merged in their order, kChunks of them loaded at a time, and divided. o
// is zero before.
template <int kTogether, int kChunks>
__device__ __forceinline__ void MergeElements(const RowLayerParams& p, int slots, int64_t row,
                                              int64_t apart, int column, int head_shift,
                                              Floats4 (&o)[kTogether]) {
  const int64_t heads = static_cast<int64_t>(p.tile_count) * kTileRows * p.heads;  // of a slot
  const int64_t head = row * p.heads + (column >> head_shift);
  const int64_t next_row = apart * p.heads;
  const float* states = p.chunk_state + head * 2;
  const float* chunks = p.chunk_o + head * p.head_dim + (column & (p.head_dim - 1));
  float m[kTogether];
  float l[kTogether];
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    m[r] = -INFINITY;
    l[r] = 0;
  }
#pragma unroll 1
  for (int first = 0; first < slots; first += kChunks) {
    Floats2 state[kChunks][kTogether];
    Floats4 chunk[kChunks][kTogether];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (first + i >= slots) break;
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        const int64_t at = (first + i) * heads + r * next_row;
        state[i][r] = LoadFresh<Floats2>(states + at * 2);
        chunk[i][r] = LoadFresh<Floats4>(chunks + at * p.head_dim);
      }
    }
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (first + i >= slots) break;
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        const MergeScale scale = MergeMaximum(m[r], state[i][r].v[0]);
        l[r] = MergeSum(l[r], state[i][r].v[1], scale);
#pragma unroll
        for (int k = 0; k < 4; ++k) o[r].v[k] = MergeSum(o[r].v[k], chunk[i][r].v[k], scale);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    const float divisor = l[r] > 0 ? Reciprocal(l[r]) : 0.0f;  // no key at all: attention is 0
#pragma unroll
    for (int k = 0; k < 4; ++k) o[r].v[k] *= divisor;
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MERGE_CHUNKS_CUH_
