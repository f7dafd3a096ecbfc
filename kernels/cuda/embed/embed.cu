#include <cassert>

#include "base/integer_math.h"
#include "kernels/cuda/embed/embed.h"
#include "kernels/cuda/embed/path_rows.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kBlockRows = kGroupRows;  // one warp each
constexpr int kThreads = kBlockRows * kWarpSize;

// x = encoding + offset + y y_weight for one row, or zero if `empty`. Called by one warp.
__device__ __forceinline__ void EmbedRow(const float* encoding, const float* offset,
                                         const float* y_weight, float y, bool empty, int width,
                                         float* x) {
  for (int c = threadIdx.x % kWarpSize * 4; c < width; c += kWarpSize * 4) {
    Floats4 sum = {};
    if (!empty) sum = EmbedColumns(encoding + c, offset + c, y_weight + c, y);
    StoreAs<Floats4>(x + c, sum);
  }
}

// Grid: x groups of all tiles. A block computes one group of 16 rows.
__global__ void __launch_bounds__(kThreads)
    EmbedPathsKernel(const __grid_constant__ EmbedPathsParams p) {
  GridDepLaunch();
  GridDepWait();
  const int tile_index = blockIdx.x / kTileGroups;
  const int group = blockIdx.x % kTileGroups;
  const int groups = LoadCg<int32_t>(&p.tiles[tile_index].groups);
  const PathTile paths = LoadCg<PathTile>(p.paths + tile_index);
  if (group >= groups) return;
  const int row = threadIdx.x / kWarpSize;
  const PathRow from = PathRowOf(paths, group * kGroupPaths + row % kGroupPaths, row >= kGroupPaths,
                                 p.buffer_positions);
  EmbedRow(paths.encodings + from.query_row * p.width, p.offsets + from.offset * p.width,
           p.y_weight, from.y, from.empty, p.width,
           p.x + (static_cast<int64_t>(blockIdx.x) * kBlockRows + row) * p.width);
}

// Grid: x groups of 16 rows, of whole tiles.
__global__ void __launch_bounds__(kThreads)
    EmbedRowsKernel(const __grid_constant__ EmbedRowsParams p) {
  GridDepLaunch();
  GridDepWait();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kBlockRows + threadIdx.x / kWarpSize;
  const bool empty = row >= p.rows;
  const float y = empty || p.y == nullptr ? 0.0f : LoadCg<float>(p.y + row);
  EmbedRow(p.encodings + row * p.width, p.offset, p.y_weight, y, empty, p.width,
           p.x + row * p.width);
}

}  // namespace

ErrorCode LoadEmbedKernels(int shared_bytes) {
  const ErrorCode error = LoadKernel(&EmbedPathsKernel, shared_bytes);
  return error != 0 ? error : LoadKernel(&EmbedRowsKernel, shared_bytes);
}

ErrorCode LaunchEmbedPaths(const EmbedPathsParams& params, Stream stream) {
  assert(ValidateEmbedPaths(params).ok());
  return Launch(&EmbedPathsKernel,
                {.blocks_x = params.tile_count * kTileGroups, .threads = kThreads}, stream, params);
}

ErrorCode LaunchEmbedRows(const EmbedRowsParams& params, Stream stream) {
  assert(ValidateEmbedRows(params).ok());
  const int tiles = static_cast<int>(CeilDiv(params.rows, kTileRows));
  return Launch(&EmbedRowsKernel, {.blocks_x = tiles * kTileGroups, .threads = kThreads}, stream,
                params);
}

}  // namespace chorale::kernels::cuda
