// The last part of a block of the head kernel: from the raw outputs of its rows to mixtures, draws
// and log-densities.
#ifndef CHORALE_KERNELS_CUDA_HEAD_EMIT_ROWS_CUH_
#define CHORALE_KERNELS_CUDA_HEAD_EMIT_ROWS_CUH_

#include "kernels/cuda/head/advance_tile.cuh"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/head/head_rows.cuh"
#include "kernels/cuda/head/row_mixture.cuh"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/ops/step_draw.h"

namespace chorale::kernels::cuda {

// Draws or scores the value of a path at a position and stores the outputs.
__device__ __forceinline__ void EmitValue(const HeadParams& p, const RowMixture& mixture,
                                          const HeadRow& row, const PathTile& tile,
                                          const PathPair& pair) {
  const bool drawn = IsDrawn(tile, pair);
  const float value =
      drawn ? static_cast<float>(DrawValue(p, mixture, row.total, row.draw)) : row.observed;
  const double log_density = LogDensity(p, mixture, value);
  if (LaneIndex() != 0) return;
  const int64_t emitted = ValueAt(tile, pair, tile.first_emitted);
  if (drawn) tile.values[ValueAt(tile, pair, 0)] = value;
  if (tile.emitted_values != nullptr) tile.emitted_values[emitted] = value;
  tile.emitted_densities[emitted] = log_density;
}

// The random number of each row of the paths, or the value to score: one lane a row.
__device__ __forceinline__ void LoadDraw(const PathTile& tile, const PathPair& pair, HeadRow& row) {
  if (!InUse(tile, pair)) return;
  if (IsDrawn(tile, pair)) {
    row.draw = StepDrawOf(tile.seed, LoadCg<uint64_t>(tile.path_numbers + pair.path),
                          static_cast<uint32_t>(pair.position));
  } else {
    row.observed = LoadCg<float>(tile.values + ValueAt(tile, pair, 0));
  }
}

// Computes the mixtures of a block's rows and stores the outputs of its phase. float64 is slow:
// half of the warps compute weights, each of them of whole rows, while the others compute
// components, a lane one at a time, and the last warp computes draws and advances the tile.
template <int kSets>
__device__ __forceinline__ void EmitRows(const HeadKernelParams& params, const HeadRows& rows,
                                         char* shared) {
  constexpr int kRowsAtOnce = kSets == 1 ? 1 : 2;
  constexpr int kDrawWarp = kHeadWarps - 1;
  constexpr int kComponentThreads = (kDrawWarp - kHeadRows) * kWarpSize;
  const HeadParams& p = params.head;
  const int components = p.shape.components;
  const int raw_stride = HeadRawStride(components);
  const bool of_paths = p.paths != nullptr;
  const float* const raw = params.shared.raw.At(shared);
  const float* const biases = params.shared.biases.At(shared);
  const PathTile& tile = *params.shared.paths.At(shared);
  HeadRow* const row_values = params.shared.rows.At(shared);
  const int first_row = rows.first_set * kHeadRows;  // a pair, or a row of the tile
  const int in_use =
      of_paths ? min(rows.in_use, tile.paths * tile.path_positions - first_row) : rows.in_use;
  const auto mixture_of = [&](int row) {
    double* at = params.shared.mixture.At(shared) + row * kHeadMixtureArrays * components;
    return RowMixture{at, at + components, at + 2 * components, at + 3 * components,
                      at + 4 * components};
  };
  if (WarpIndex() < kHeadRows) {
#pragma unroll 1
    for (int row = WarpIndex(); row < in_use; row += kRowsAtOnce * kHeadRows) {
      RowMixture mixtures[kRowsAtOnce];
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) mixtures[r] = mixture_of(row + r * kHeadRows);
      double totals[kRowsAtOnce];
      ComputeWeights<kRowsAtOnce>(p, raw + row * raw_stride, kHeadRows * raw_stride, biases,
                                  mixtures, totals);
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        if (LaneIndex() == 0) row_values[row + r * kHeadRows].total = totals[r];
      }
    }
  } else if (WarpIndex() < kDrawWarp) {
#pragma unroll 1
    for (int i = ThreadIndex() - kHeadRows * kWarpSize; i < in_use * components;
         i += kComponentThreads) {
      const int row = i / components;
      ComputeComponent(p, raw + row * raw_stride, biases, mixture_of(row), i - row * components);
    }
  } else if (of_paths) {
    if (LaneIndex() < in_use) {
      LoadDraw(tile, PathPairOf(tile, first_row + LaneIndex()), row_values[LaneIndex()]);
    }
    if (LaneIndex() == 0) {
      AdvanceTile(tile, rows.blocks, p.tiles[rows.tile_index], p.paths[rows.tile_index]);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int row = WarpIndex(); row < in_use; row += kHeadWarps) {
    const RowMixture mixture = mixture_of(row);
    float* to = p.mixtures;
    int64_t at = static_cast<int64_t>(rows.tile_index) * kTileRows + first_row + row;
    if (of_paths) {
      const PathPair pair = PathPairOf(tile, first_row + row);
      if (!InUse(tile, pair)) continue;
      EmitValue(p, mixture, row_values[row], tile, pair);
      to = tile.emitted_mixtures;
      at = ValueAt(tile, pair, tile.first_emitted);
    }
    if (to != nullptr) StoreMixture(p, mixture, to + at * 3 * components);
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_EMIT_ROWS_CUH_
