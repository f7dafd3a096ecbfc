#include <cassert>

#include "base/integer_math.h"
#include "kernels/cuda/head/emit_rows.cuh"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/head/head_rows.cuh"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

// Most row sets of a block, which share the weights that it reads: those of a tile of paths.
constexpr int kMostSets = kTileGroups;
constexpr int kBlocks = 2;  // of a multiprocessor

// Grid: x blocks of kSets row sets of 8: the query rows of each group of paths, or all rows of a
// tile that predicts. A row's result does not depend on kSets. With few blocks there is little
// arithmetic, so memory latency dominates: weights are loaded as early as registers allow.
//
// -inf: the maximum of M >= 1 finite weights is finite; a log-density may be -inf and is stored as
// such.
template <int kSets>
__global__ void __launch_bounds__(kHeadThreads, kBlocks)
    HeadKernel(const __grid_constant__ HeadKernelParams params) {
  GridDepLaunch();
  char* const shared = DynamicSmem();
  HeadWeightFragment<kSets> fragment;
  LoadWeightFragment<kSets>(WarpTaskOf(params, 0).weight, fragment);
  __syncwarp();  // keeps the compiler from sinking these loads below the next ones
  LoadHeadVectors<kSets>(params, shared);
  __syncthreads();
  GridDepWait();
  const HeadRows rows = HeadRowsOfBlock<kSets>(params.head);
  NormalizeHeadRows(params, rows, kSets, shared);
  if (rows.in_use <= 0) return;
  __syncthreads();
  MultiplyHead<kSets>(params, fragment, shared);
  EmitRows<kSets>(params, rows, shared);
}

template <int kSets>
ErrorCode LaunchWithSets(const HeadParams& params, int row_sets, Stream stream) {
  const HeadKernelParams kernel_params =
      HeadKernelParamsOf(params, HeadLayoutOf(params.shape, kSets));
  const LaunchShape shape = {
      .blocks_x = row_sets / kSets,
      .threads = kHeadThreads,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return Launch(&HeadKernel<kSets>, shape, stream, kernel_params);
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
  ErrorCode error = LoadKernel(&HeadKernel<1>, shared_bytes);
  if (error == 0) error = LoadKernel(&HeadKernel<2>, shared_bytes);
  if (error == 0) error = LoadKernel(&HeadKernel<kMostSets>, shared_bytes);
  return error != 0 ? error : LoadKernel(&AdvancePositionKernel, shared_bytes);
}

ErrorCode LaunchHead(const HeadParams& params, Stream stream) {
  assert(ValidateHead(params).ok());
  const int row_sets =
      params.tile_count * (params.paths != nullptr ? kTileGroups : kTileRows / kHeadRows);
  // As few as let all blocks run at once.
  int sets = 1;
  while (sets < kMostSets && row_sets > sets * kBlocks * params.multiprocessors &&
         HeadLayoutOf(params.shape, 2 * sets).bytes <= params.shared_bytes) {
    sets *= 2;
  }
  if (sets == 1) return LaunchWithSets<1>(params, row_sets, stream);
  return sets == 2 ? LaunchWithSets<2>(params, row_sets, stream)
                   : LaunchWithSets<kMostSets>(params, row_sets, stream);
}

ErrorCode LaunchAdvancePosition(const AdvancePositionParams& params, Stream stream) {
  const int blocks = static_cast<int>(CeilDiv(params.tile_count, kAdvanceThreads));
  return Launch(&AdvancePositionKernel, {.blocks_x = blocks, .threads = kAdvanceThreads}, stream,
                params);
}

}  // namespace chorale::kernels::cuda
