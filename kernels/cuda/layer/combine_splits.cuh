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

// The splits of a tile, whose partials follow one another.
struct TileSplits {
  int context = 1;
  int buffers = 0;

  TileSplits() = default;  // one partial that has them all
  // May precede GridDepWait: reads fields of the tile that no kernel changes.
  __device__ __forceinline__ explicit TileSplits(const Tile* tile)
      : context(static_cast<int>(ContextSplits(LoadCg<int32_t>(&tile->context_rows)))),
        buffers(static_cast<int>(BufferSplits(LoadCg<int32_t>(&tile->buffer_capacity)))) {}
};

// Four elements of each of kTogether rows, combined over the splits so far.
template <int kTogether>
struct CombinedRows {
  float m[kTogether];
  float l[kTogether];
  Floats4 o[kTogether];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      m[r] = -INFINITY;
      l[r] = 0;
      o[r] = {};
    }
  }

  // Combines the r-th row with a split.
  __device__ __forceinline__ void Combine(int r, float split_m, float split_l,
                                          const Floats4& split_o) {
    const CombineScale scale = CombineMax(m[r], split_m);
    l[r] = CombineSum(l[r], split_l, scale);
#pragma unroll
    for (int k = 0; k < 4; ++k) o[r].v[k] = CombineSum(o[r].v[k], split_o.v[k], scale);
  }
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
      rows.Combine(r, ml[i][r].v[0], ml[i][r].v[1], o[i][r]);
    }
  }
}

// Attention, four elements of each of kTogether rows: combines the splits of the context in their
// order, those of the buffers likewise, then the two, and divides by l. The first row's partials
// are at `from`, the next ones row_stride rows apart. Up to kSplits splits, 1 or a multiple of
// kSplitsTogether, are loaded together.
template <int kTogether, int kSplits>
__device__ __forceinline__ void CombineElements(const ModelShape& shape, const TileSplits& splits,
                                                PartialSource from, int row_stride,
                                                Floats4 (&o)[kTogether]) {
  const int row_ml_stride = row_stride * shape.heads * 2;
  const int row_o_stride = row_stride * shape.heads * shape.head_dim;
  CombinedRows<kTogether> rows;
  rows.Clear();
#pragma unroll 1
  for (int part = 0; part < 2; ++part) {
    CombinedRows<kTogether> of_part;
    of_part.Clear();
    int left = part == 0 ? splits.context : splits.buffers;
    if constexpr (kSplits > kSplitsTogether) {
#pragma unroll 1
      for (; left >= kSplits; left -= kSplits) {
        CombineMore<kSplits>(from, row_ml_stride, row_o_stride, of_part);
      }
    }
    if constexpr (kSplits > 1) {
#pragma unroll 1
      for (; left >= kSplitsTogether; left -= kSplitsTogether) {
        CombineMore<kSplitsTogether>(from, row_ml_stride, row_o_stride, of_part);
      }
    }
#pragma unroll 1
    for (; left > 0; --left) CombineMore<1>(from, row_ml_stride, row_o_stride, of_part);
#pragma unroll
    for (int r = 0; r < kTogether; ++r) rows.Combine(r, of_part.m[r], of_part.l[r], of_part.o[r]);
  }
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
