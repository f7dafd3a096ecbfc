#include <cassert>

#include "base/integer_math.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/head/head_rows.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

// Grid: x row sets of 8: the query rows of each group of paths, or all rows of a tile that
// predicts. A block computes one set. There are few blocks with little arithmetic each, so memory
// latency dominates: weights are loaded as early as registers allow.
//
// -inf: the maximum of M >= 1 finite weights is finite; a log-density may be -inf and is stored as
// such.
__global__ void __launch_bounds__(kHeadThreads, 2)
    HeadKernel(const __grid_constant__ HeadKernelParams params) {
  GridDepLaunch();
  const HeadParams& p = params.head;
  char* const shared = DynamicSmem();
  HeadWeightFragment fragment;
  LoadWeightFragment(WarpTaskOf(params, 0).weight, fragment);
  __syncwarp();  // keeps the compiler from sinking these loads below the next ones
  LoadHeadVectors(params, shared);
  __syncthreads();
  GridDepWait();
  const bool of_paths = p.paths != nullptr;
  const int sets = of_paths ? kTileGroups : kTileRows / kHeadRows;
  const int tile_index = blockIdx.x / sets;
  const int set = blockIdx.x % sets;
  const int row_of_tile = set * (of_paths ? kGroupRows : kHeadRows);
  const int groups = LoadCg<int32_t>(&p.tiles[tile_index].groups);
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const int64_t first_row = static_cast<int64_t>(tile_index) * kTileRows + row_of_tile;

  // Does not wait for `groups`: rows of an idle tile are valid memory, too.
  if (warp < kHeadRows) {
    const float* x = p.x + (first_row + warp) * p.shape.width;
    NormalizeHeadRow(params, x, warp, shared);
  } else if (warp == kHeadRows && of_paths) {
    constexpr int kWords = sizeof(PathTile) / 4;
    static_assert(kWords <= kWarpSize);
    const auto* from = reinterpret_cast<const uint32_t*>(p.paths + tile_index);
    auto* to = reinterpret_cast<uint32_t*>(params.shared.paths.At(shared));
    if (lane < kWords) to[lane] = LoadCg<uint32_t>(from + lane);
  }
  if (row_of_tile >= groups * kGroupRows) return;
  __syncthreads();
  if (warp == kHeadRows && of_paths && lane < kHeadRows) ComputeDraws(params, set, shared);
  MultiplyHead(params, fragment, shared);
  EmitRows(params, tile_index, set, shared);
}

constexpr int kAdvanceThreads = 512;  // of a block of AdvancePositionKernel

// Grid: x tiles, one thread each.
__global__ void __launch_bounds__(kAdvanceThreads)
    AdvancePositionKernel(const __grid_constant__ AdvancePositionParams p) {
  GridDepLaunch();
  GridDepWait();
  const int index = blockIdx.x * kAdvanceThreads + threadIdx.x;
  if (index >= p.tile_count) return;
  Tile& tile = p.tiles[index];
  PathTile& paths = p.paths[index];
  if (LoadCg<int32_t>(&tile.groups) == 0) return;
  const int position = LoadCg<int32_t>(&paths.position);
  const int steps_left = LoadCg<int32_t>(&paths.steps_left) - 1;
  paths.steps_left = steps_left;
  paths.token_position = position;
  paths.position = position + 1;
  tile.append_position = position;
  tile.visible_query = position + 1;
  tile.visible_buffer = position + 1;
  if (steps_left == 0 || position + 1 == LoadCg<int32_t>(&paths.query_rows)) tile.groups = 0;
}

}  // namespace

ErrorCode LoadHeadKernels(int shared_bytes) {
  const ErrorCode error = LoadKernel(&HeadKernel, shared_bytes);
  return error != 0 ? error : LoadKernel(&AdvancePositionKernel, shared_bytes);
}

ErrorCode LaunchHead(const HeadParams& params, Stream stream) {
  assert(ValidateHead(params).ok());
  const HeadKernelParams kernel_params = HeadKernelParamsOf(params);
  const int sets = params.paths != nullptr ? kTileGroups : kTileRows / kHeadRows;
  const LaunchShape shape = {
      .blocks_x = params.tile_count * sets,
      .threads = kHeadThreads,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return Launch(&HeadKernel, shape, stream, kernel_params);
}

ErrorCode LaunchAdvancePosition(const AdvancePositionParams& params, Stream stream) {
  const int blocks = static_cast<int>(CeilDiv(params.tile_count, kAdvanceThreads));
  return Launch(&AdvancePositionKernel, {.blocks_x = blocks, .threads = kAdvanceThreads}, stream,
                params);
}

}  // namespace chorale::kernels::cuda
