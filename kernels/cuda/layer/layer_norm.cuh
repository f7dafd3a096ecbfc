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

// The columns of a row in two halves, each of which has a variance of its own: those with an even
// column / 64, and the others. `own` and `other` are seen from one of them.
struct NormHalves {
  float own_weight;  // 1 / columns; 0 if there are none
  float other_part;  // columns / width
  float both_parts;  // the product of both parts
  float weight;      // 1 / width

  __device__ __forceinline__ NormHalves(int width, int half) {
    const int pairs = width / kWeightTileInputs * kHalf;
    const int rest = width % kWeightTileInputs;
    const int columns[2] = {pairs + min(rest, kHalf), pairs + max(rest - kHalf, 0)};
    const auto own = static_cast<float>(half == 0 ? columns[0] : columns[1]);
    const auto other = static_cast<float>(half == 0 ? columns[1] : columns[0]);
    weight = 1.0f / static_cast<float>(width);
    own_weight = own > 0 ? 1.0f / own : 0.0f;
    other_part = other * weight;
    both_parts = own * weight * other_part;
  }

 private:
  static constexpr int kHalf = kWeightTileInputs / 2;
};

// What a norm needs to know of a half of a row.
struct HalfOfRow {
  float mean;
  float squares;  // sum of the squares of deviations from the mean

  // `sum`, `squares`: of the half's columns minus `shift`.
  __device__ __forceinline__ static HalfOfRow Of(const NormHalves& halves, float shift, float sum,
                                                 float squares) {
    const float mean = sum * halves.own_weight;
    return {shift + mean, fmaf(-mean, sum, squares)};
  }
};

// Mean and deviation of a row, combined from its halves (Chan, Golub and LeVeque 1983, eq. 2.1).
// The variance of a half is computed in one pass, shifted by its first element, so that
// cancellation is bounded by the variance.
struct RowMoments {
  float mean;   // minus the own half's shift
  float scale;  // 1 / sqrt(variance + epsilon)

  // `sum`: of the own half's columns minus its shift.
  __device__ __forceinline__ RowMoments(const NormHalves& halves, float sum, const HalfOfRow& own,
                                        const HalfOfRow& other, float epsilon) {
    const float apart = own.mean - other.mean;
    const float within = (own.squares + other.squares) * halves.weight;
    mean = fmaf(-apart, halves.other_part, sum * halves.own_weight);
    scale = Rsqrt(fmaf(apart * apart, halves.both_parts, within) + epsilon);
  }
};

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
// keeps their elements in registers. Lanes 0 to 15 have one half of the columns (NormHalves), the
// others the other.
//
// Calls store(rows, column, x) with columns `column` to column + 3 of kTogether rows, up to whole
// weight tiles: zeros beyond `width`.
template <int kRows, int kWarps, int kTogether, int kWidthTiles, typename Store>
__device__ __forceinline__ void NormalizeRows(float* x, int stride, const float* gamma,
                                              const float* beta, int width, float epsilon,
                                              const Store& store) {
  static_assert(kTogether % 2 == 0);
  constexpr int kQuads = kWidthTiles * kWeightTileInputs / (4 * kWarpSize);
  constexpr int kHalfLanes = kWarpSize / 2;
  const int lane_column = LaneIndex() * 4;
  const int padded_width = WeightTilesOf(width) * kWeightTileInputs;
  const int half = LaneIndex() / kHalfLanes;
  const int first_column = half * (kHalfLanes * 4);
  const NormHalves halves(width, half);
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
    float shift[kTogether];
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const float* row = x + rows[r] * stride;
      shift[r] = first_column < width ? row[first_column] : 0.0f;
      LoadShifted(row, width, shift[r], r, quads, sums[r], sums[kTogether + r]);
    }
    SumOverLanes<kHalfLanes>(sums);
    float mean[kTogether];  // minus the shift
    float scale[kTogether];
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const HalfOfRow own = HalfOfRow::Of(halves, shift[r], sums[r], sums[kTogether + r]);
      const HalfOfRow other = {__shfl_xor_sync(kAllLanes, own.mean, kHalfLanes),
                               __shfl_xor_sync(kAllLanes, own.squares, kHalfLanes)};
      const RowMoments moments(halves, sums[r], own, other, epsilon);
      mean[r] = moments.mean;
      scale[r] = moments.scale;
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
