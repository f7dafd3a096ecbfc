// Features of 16 cells (kernels/ops/cell_features.h) and their linear map, by one warp.
//
// In float32: bfloat16 would lose the differences that sines of 64 times a number show.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_FEATURES_CUH_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_FEATURES_CUH_

#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/row_encoder/cell_block.cuh"
#include "kernels/cuda/row_encoder/cell_table.h"
#include "kernels/ops/cell_features.h"

namespace chorale::kernels::cuda {

struct SineCosine {
  float sine;
  float cosine;
};

// Accurate to about 2^-22. The range reduction to [-pi/2, pi/2] is exact enough for |angle| up to
// 8192; angles of features stay below 64 (3 + log(2^128)).
__device__ __forceinline__ SineCosine SineAndCosine(float angle) {
  const float turns = rintf(angle * 0.318309886f);  // half turns
  float r = fmaf(turns, -3.14159274f, angle);
  r = fmaf(turns, 8.74227766e-8f, r);
  const float t = r * r;
  float s = fmaf(t, -2.50521084e-8f, 2.75573192e-6f);
  s = fmaf(t, s, -1.98412698e-4f);
  s = fmaf(t, s, 8.33333333e-3f);
  s = fmaf(t, s, -0.166666667f);
  s = fmaf(t * r, s, r);
  float c = fmaf(t, 2.08767570e-9f, -2.75573192e-7f);
  c = fmaf(t, c, 2.48015873e-5f);
  c = fmaf(t, c, -1.38888889e-3f);
  c = fmaf(t, c, 4.16666667e-2f);
  c = fmaf(t, c, -0.5f);
  c = fmaf(t, c, 1.0f);
  const bool odd = (static_cast<int>(turns) & 1) != 0;
  return {odd ? -s : s, odd ? -c : c};
}

__device__ __forceinline__ float SoftLimited(float x) {
  const float size = fabsf(x);
  return size <= kSoftLimit ? x : copysignf(kSoftLimit + log1pf(size - kSoftLimit), x);
}

// features(x) of one number for each of the first 16 lanes, to [feature][16] in shared memory; lane
// l + 16 computes half of lane l's. Zeros where `absent`.
__device__ __forceinline__ void NumberFeatures(float x, bool absent, float* features) {
  const int lane = threadIdx.x % kWarpSize;
  const int cell = lane % kCellTileTokens;
  const float c = SoftLimited(x);
  if (lane < kCellTileTokens) features[cell] = absent ? 0.0f : c;
#pragma unroll
  for (int i = 0; i < (kFrequencies + 1) / 2; ++i) {
    const int k = 2 * i + lane / kCellTileTokens;
    if (k >= kFrequencies) continue;
    const SineCosine wave = SineAndCosine(c * static_cast<float>(1 << k));
    features[(1 + k) * kCellTileTokens + cell] = absent ? 0.0f : wave.sine;
    features[(1 + kFrequencies + k) * kCellTileTokens + cell] = absent ? 0.0f : wave.cosine;
  }
}

// Shared memory of one warp: [kCellFeatures + kNumberFeatures][16] f32.
inline constexpr int kFeatureTile = (kCellFeatures + kNumberFeatures) * kCellTileTokens;

// W features + b of the cells of rows [first, first + 16) in one column, and with kTarget of their
// rows' y. `weights` is [kInputs + 1, kCellWidth] in shared memory, inputs first, then b. Cells
// beyond the table's last row repeat it and are unused.
template <bool kTarget>
struct CellEmbedding {
  static constexpr int kInputs = kCellFeatures + (kTarget ? kNumberFeatures : 0);
  static constexpr int kWeights = (kInputs + 1) * kCellWidth;

  __device__ __forceinline__ static CellTokens Embed(const CellTable& table, int first, int column,
                                                     const float* weights, float* features) {
    const int lane = threadIdx.x % kWarpSize;
    __syncwarp();  // all lanes have read the previous tile's features
    const int row = min(first + lane % kCellTileTokens, table.rows - 1);
    const int64_t at = static_cast<int64_t>(row) * table.columns + column;
    const bool missing = table.missing != nullptr && table.missing[at] != 0;
    NumberFeatures(table.values[at], missing, features);
    if (lane < kCellTileTokens) {
      features[kNumberFeatures * kCellTileTokens + lane] = missing ? 1.0f : 0.0f;
      features[(kNumberFeatures + 1) * kCellTileTokens + lane] =
          table.categorical[column] != 0 ? 1.0f : 0.0f;
    }
    if constexpr (kTarget) {
      NumberFeatures(table.y[row], false, features + kCellFeatures * kCellTileTokens);
    }
    __syncwarp();
    return Map(weights, features);
  }

 private:
  __device__ __forceinline__ static CellTokens Map(const float* weights, const float* features) {
    const int lane = threadIdx.x % kWarpSize;
    const float* column = weights + lane % 4 * 2;
    CellTokens x;
#pragma unroll
    for (int n = 0; n < kCellWidth / 8; ++n) {
      const Floats2 bias = LoadAs<Floats2>(column + kInputs * kCellWidth + 8 * n);
      for (int i = 0; i < 4; ++i) x.v[n][i] = bias.v[i % 2];
    }
    for (int k = 0; k < kInputs; ++k) {
      const float upper = features[k * kCellTileTokens + lane / 4];
      const float lower = features[k * kCellTileTokens + 8 + lane / 4];
#pragma unroll
      for (int n = 0; n < kCellWidth / 8; ++n) {
        const Floats2 w = LoadAs<Floats2>(column + k * kCellWidth + 8 * n);
        x.v[n][0] = fmaf(upper, w.v[0], x.v[n][0]);
        x.v[n][1] = fmaf(upper, w.v[1], x.v[n][1]);
        x.v[n][2] = fmaf(lower, w.v[0], x.v[n][2]);
        x.v[n][3] = fmaf(lower, w.v[1], x.v[n][3]);
      }
    }
    return x;
  }
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_FEATURES_CUH_
