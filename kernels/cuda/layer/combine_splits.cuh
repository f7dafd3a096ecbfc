// Combines the softmax states of KV splits into attention, for all versions of the layer kernel
// and for the unfused form.
#ifndef CHORALE_KERNELS_CUDA_LAYER_COMBINE_SPLITS_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_COMBINE_SPLITS_CUH_

#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"

namespace chorale::kernels::cuda {

inline constexpr int kSplitsTogether = 4;

// May precede GridDepWait: reads fields of the tile that no kernel changes.
__device__ __forceinline__ int SplitsOfTile(const Tile* tile) {
  return static_cast<int>(
      KvSplits(LoadCg<int32_t>(&tile->context_rows), LoadCg<int32_t>(&tile->buffer_capacity)));
}

// Four elements of each of kTogether rows, combined over the splits so far.
template <int kTogether>
struct CombinedRows {
  float m[kTogether];
  float l[kTogether];
  Floats4 o[kTogether];
};

// The partials of four columns of a row, in the first split; strides to the next split.
struct PartialSource {
  const float* ml = nullptr;
  const float* o = nullptr;
  int64_t ml_stride = 0;
  int64_t o_stride = 0;

  PartialSource() = default;

  // `row`: among the rows of all tiles. Columns `column` to column + 3.
  __device__ __forceinline__ PartialSource(const LayerParams& p, int64_t row, int column,
                                           int head_shift)
      : ml(p.partial_ml + (row * p.shape.heads + (column >> head_shift)) * 2),
        o(p.partial_o + row * p.shape.heads * p.shape.head_dim + column),
        ml_stride(static_cast<int64_t>(p.tile_count) * kTileRows * p.shape.heads * 2),
        o_stride(ml_stride / 2 * p.shape.head_dim) {}

  // Computes all fields here, ahead of a wait.
  __device__ __forceinline__ void Pin() {
    PinValue(ml);
    PinValue(o);
    PinValue(ml_stride);
    PinValue(o_stride);
  }

  // The partials `rows` rows and `columns` columns further on. REQUIRES: whole heads.
  __device__ __forceinline__ PartialSource At(const ModelShape& shape, int rows, int columns,
                                              int head_shift) const {
    PartialSource source = *this;
    source.ml += (rows * shape.heads + (columns >> head_shift)) * 2;
    source.o += rows * shape.heads * shape.head_dim + columns;
    return source;
  }
};

// Combines `rows` with the next kSplits splits, which are loaded together.
template <int kSplits, int kTogether>
__device__ __forceinline__ void CombineMore(PartialSource& from, int row_ml_stride,
                                            int row_o_stride, CombinedRows<kTogether>& rows) {
  Floats2 ml[kSplits][kTogether];
  Floats4 o[kSplits][kTogether];
#pragma unroll
  for (int i = 0; i < kSplits; ++i) {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      ml[i][r] = LoadCg<Floats2>(from.ml + r * row_ml_stride);
      o[i][r] = LoadCg<Floats4>(from.o + r * row_o_stride);
    }
    from.ml += from.ml_stride;
    from.o += from.o_stride;
  }
#pragma unroll
  for (int i = 0; i < kSplits; ++i) {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const CombineScale scale = CombineMax(rows.m[r], ml[i][r].v[0]);
      rows.l[r] = CombineSum(rows.l[r], ml[i][r].v[1], scale);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        rows.o[r].v[k] = CombineSum(rows.o[r].v[k], o[i][r].v[k], scale);
      }
    }
  }
}

// Attention, four elements of each of kTogether rows: combines num_splits splits in their order and
// divides by l. The first row's partials are at `from`, the next ones row_stride rows apart. Up to
// kSplits splits, 1 or a multiple of kSplitsTogether, are loaded together.
template <int kTogether, int kSplits>
__device__ __forceinline__ void CombineElements(const ModelShape& shape, int num_splits,
                                                PartialSource from, int row_stride,
                                                Floats4 (&o)[kTogether]) {
  const int row_ml_stride = row_stride * shape.heads * 2;
  const int row_o_stride = row_stride * shape.heads * shape.head_dim;
  CombinedRows<kTogether> rows;
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    rows.m[r] = -INFINITY;
    rows.l[r] = 0;
    rows.o[r] = {};
  }
  if constexpr (kSplits > kSplitsTogether) {
#pragma unroll 1
    for (; num_splits >= kSplits; num_splits -= kSplits)
      CombineMore<kSplits>(from, row_ml_stride, row_o_stride, rows);
  }
  if constexpr (kSplits > 1) {
#pragma unroll 1
    for (; num_splits >= kSplitsTogether; num_splits -= kSplitsTogether) {
      CombineMore<kSplitsTogether>(from, row_ml_stride, row_o_stride, rows);
    }
  }
#pragma unroll 1
  for (; num_splits > 0; --num_splits) CombineMore<1>(from, row_ml_stride, row_o_stride, rows);
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    const float l = rows.l[r];
    const float divisor = l > 0 ? Rcp(l) : 0.0f;  // no key at all: attention is 0
#pragma unroll
    for (int k = 0; k < 4; ++k) o[r].v[k] = rows.o[r].v[k] * divisor;
  }
}

// The same of attention that needs no combining (LayerParams::attended): columns `column` to
// column + 3, the first row at `from`.
template <int kTogether>
__device__ __forceinline__ void LoadAttended(const uint16_t* from, int row_stride,
                                             Floats4 (&o)[kTogether]) {
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    const Words2 words = LoadCg<Words2>(from + r * row_stride);
    o[r] = {FirstBf16(words.w[0]), SecondBf16(words.w[0]), FirstBf16(words.w[1]),
            SecondBf16(words.w[1])};
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_COMBINE_SPLITS_CUH_
