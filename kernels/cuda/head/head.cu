#include <cassert>

#include "kernels/cuda/head/emit_rows.cuh"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/head/head_rows.cuh"
#include "kernels/cuda/layout/tile.h"
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

}  // namespace

ErrorCode LoadHeadKernels(int shared_bytes) {
  ErrorCode error = LoadKernel(&HeadKernel<1>, shared_bytes);
  if (error == 0) error = LoadKernel(&HeadKernel<2>, shared_bytes);
  return error != 0 ? error : LoadKernel(&HeadKernel<kMostSets>, shared_bytes);
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

}  // namespace chorale::kernels::cuda
