// Layer norm of a block's rows in shared memory, for two versions of the layer kernel.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_NORM_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_NORM_CUH_

#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/layout/weight_tiles.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// WeightTiles in 32-bit arithmetic.
__device__ __forceinline__ int WeightTilesOf(int n) {
  return (n + kWeightTileInputs - 1) / kWeightTileInputs;
}

// Loads this lane's elements of row r, minus `shift`, zeros beyond `width`, and adds them and their
// squares to `sum` and `squares`.
template <int kQuads, int kTogether>
__device__ __forceinline__ void LoadShifted(const float* row, int width, float shift, int r,
                                            Floats4 (&quads)[kQuads][kTogether], float& sum,
                                            float& squares) {
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const int column = LaneIndex() * 4 + q * kWarpSize * 4;
    Floats4& quad = quads[q][r];
    quad = {};
    if (column >= width) continue;
    quad = LoadAs<Floats4>(row + column);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& v = quad.v[i];
      v -= shift;
      sum += v;
      squares = fmaf(v, v, squares);
    }
  }
}

// x = LN(x) for kRows rows in shared memory, `stride` elements apart, at most kWidthTiles weight
// tiles wide. A warp takes kTogether rows at a time, rows g and g + 8 of one or two groups, and
// keeps their elements in registers.
//
// One-pass variance shifted by the row's first element, so that cancellation is bounded by the
// variance.
//
// Calls store(rows, column, x) with columns `column` to column + 3 of kTogether rows, up to whole
// weight tiles: zeros beyond `width`.
template <int kRows, int kWarps, int kTogether, int kWidthTiles, typename Store>
__device__ __forceinline__ void NormalizeRows(float* x, int stride, const float* gamma,
                                              const float* beta, int width, float epsilon,
                                              const Store& store) {
  static_assert(kTogether % 2 == 0);
  constexpr int kQuads = kWidthTiles * kWeightTileInputs / (4 * kWarpSize);
  const int lane_column = LaneIndex() * 4;
  const int padded_width = WeightTilesOf(width) * kWeightTileInputs;
  const float weight = 1.0f / static_cast<float>(width);
#pragma unroll 1
  for (int set = WarpIndex(); set < kRows / kTogether; set += kWarps) {
    int rows[kTogether];
    Floats4 quads[kQuads][kTogether];
    float sums[2 * kTogether] = {};  // of elements, then of squares
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const int pair = set + r / 2 * (kRows / kTogether);
      rows[r] = pair / 8 * kGroupRows + pair % 8 + r % 2 * 8;
    }
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const float* row = x + rows[r] * stride;
      LoadShifted(row, width, *row, r, quads, sums[r], sums[kTogether + r]);
    }
    SumOverLanes<kWarpSize>(sums);
    float mean[kTogether];  // minus the shift
    float scale[kTogether];
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      mean[r] = sums[r] * weight;
      scale[r] = Rsqrt((sums[kTogether + r] - mean[r] * sums[r]) * weight + epsilon);
    }
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int column = lane_column + q * kWarpSize * 4;
      Floats4 g = {};
      Floats4 b = {};
      if (column < width) {
        g = LoadAs<Floats4>(gamma + column);
        b = LoadAs<Floats4>(beta + column);
      }
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        Floats4& quad = quads[q][r];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          quad.v[i] = fmaf((quad.v[i] - mean[r]) * scale[r], g.v[i], b.v[i]);
        }
        if (column < width) StoreAs<Floats4>(x + rows[r] * stride + column, quad);
      }
      if (column < padded_width) store(rows, column, quads[q]);
    }
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_NORM_CUH_
