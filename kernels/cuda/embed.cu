#include "kernels/cuda/device.cuh"
#include "kernels/cuda/embed.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/prepare.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsOfBlock = 16;  // one group

// Grid: x groups of all tiles. A block owns the 16 rows of one group.
__global__ void __launch_bounds__(kThreads)
    EmbedPathsKernel(const __grid_constant__ EmbedPathsParams p) {
  LetNextBegin();
  WaitForPrevious();
  const int tile_index = blockIdx.x / kTileGroups;
  const int group = blockIdx.x % kTileGroups;
  const int groups = LoadFresh<int32_t>(&p.tiles[tile_index].groups);
  const PathTile paths = LoadFresh<PathTile>(p.paths + tile_index);
  if (group >= groups) return;
  for (int row = threadIdx.x / kWarp; row < kRowsOfBlock; row += kThreads / kWarp) {
    const bool is_token = row >= kGroupPaths;
    const int path = group * kGroupPaths + row % kGroupPaths;
    const int place = is_token ? paths.token_place : paths.place;
    const bool empty = path >= paths.paths || place < 0;
    float* x = p.x + (static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + row) * p.width;
    const int target = empty ? 0
                       : paths.order == nullptr
                           ? place
                           : LoadFresh<int32_t>(paths.order + path * paths.targets + place);
    const float* encoding = paths.encodings + static_cast<int64_t>(target) * p.width;
    const float* offset = p.offsets + (is_token ? 2 + place % p.places : 0) * p.width;
    const float y =
        is_token && !empty ? LoadFresh<float>(paths.values + place * paths.paths + path) : 0.0f;
    for (int c = threadIdx.x % kWarp; c < p.width; c += kWarp) {
      x[c] = empty ? 0.0f : fmaf(y, p.y_weight[c], LoadFresh<float>(encoding + c) + offset[c]);
    }
  }
}

// Grid: x groups of 16 rows, as many as fill whole tiles.
__global__ void __launch_bounds__(kThreads)
    EmbedRowsKernel(const __grid_constant__ EmbedRowsParams p) {
  LetNextBegin();
  WaitForPrevious();
  for (int i = threadIdx.x / kWarp; i < kRowsOfBlock; i += kThreads / kWarp) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + i;
    const bool empty = row >= p.rows;
    const float y = empty || p.y == nullptr ? 0.0f : LoadFresh<float>(p.y + row);
    for (int c = threadIdx.x % kWarp; c < p.width; c += kWarp) {
      const int64_t at = row * p.width + c;
      p.x[at] =
          empty ? 0.0f : fmaf(y, p.y_weight[c], LoadFresh<float>(p.encodings + at) + p.offset[c]);
    }
  }
}

}  // namespace

ErrorCode PrepareEmbed(int shared_bytes) {
  const ErrorCode error = PrepareKernel(&EmbedPathsKernel, shared_bytes);
  return error != 0 ? error : PrepareKernel(&EmbedRowsKernel, shared_bytes);
}

ErrorCode LaunchEmbedPaths(const EmbedPathsParams& params, Stream stream) {
  return Launch(&EmbedPathsKernel,
                {.blocks_x = params.tile_count * kTileGroups, .threads = kThreads}, stream, params);
}

ErrorCode LaunchEmbedRows(const EmbedRowsParams& params, Stream stream) {
  const int tiles = static_cast<int>(CeilDiv(params.rows, kTileRows));
  return Launch(&EmbedRowsKernel, {.blocks_x = tiles * kTileGroups, .threads = kThreads}, stream,
                params);
}

}  // namespace chorale::kernels::cuda
