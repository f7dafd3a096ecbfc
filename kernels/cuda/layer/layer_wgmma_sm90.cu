#include <initializer_list>

#include "kernels/cuda/layer/layer_wgmma_sm90.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

// Four warps more than compute: a warp more would take as many registers from the others. One of
// them brings what is needed, and those who compute get what they can give up.
constexpr int kThreads = (kProductWarps + kWarpgroupWarps) * kWarpSize;
[[maybe_unused]] constexpr int kFillerRegisters = 24;
[[maybe_unused]] constexpr int kComputeRegisters = 240;

// Grid: x blocks of kGroups groups. What RowLayerKernel does, with the same bits, by products of
// warpgroups: one warp brings what is needed, two warpgroups compute.
//
// -inf: as in RowLayerKernel.
template <int kGroups, int kPanels>
__global__ void __launch_bounds__(kThreads, 1)
    RowProductKernel(const __grid_constant__ RowProductParams params) {
  GridDepLaunch();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const StageRing ring = RingOf(params);
  if (threadIdx.x == 0) {
    ring.Init();
    MbarrierInit(GivenOf(params), 1);
  }
  __syncthreads();
  constexpr int kBlocksOfTile = kTileGroups / kGroups;
  const int tile_index = blockIdx.x / kBlocksOfTile;
  const int first_group = blockIdx.x % kBlocksOfTile * kGroups;
  if (threadIdx.x >= kProductWarps * kWarpSize) {
    RegDealloc<kFillerRegisters>();
    if (threadIdx.x / kWarpSize == kProductWarps) {
      BringAll<kGroups * kGroupRows>(params, ring, tile_index, first_group);
    } else {
      GridDepWait();
    }
    return;
  }
  RegAlloc<kComputeRegisters>();
  RowProductBlock<kGroups, kPanels> block(params, ring, tile_index, first_group);
  block.Run();
#else
  GridDepWait();
#endif
}

// Calls use(kernel) for the kernel of a block's rows and of the slabs of D.
template <typename Use>
ErrorCode WithKernel(int block_rows, int64_t panels, const Use& use) {
  if (block_rows == 4 * kGroupRows) {
    return panels == 1   ? use(&RowProductKernel<4, 1>)
           : panels == 2 ? use(&RowProductKernel<4, 2>)
                         : use(&RowProductKernel<4, 4>);
  }
  if (block_rows == 2 * kGroupRows) {
    return panels == 1   ? use(&RowProductKernel<2, 1>)
           : panels == 2 ? use(&RowProductKernel<2, 2>)
                         : use(&RowProductKernel<2, 4>);
  }
  return panels == 1   ? use(&RowProductKernel<1, 1>)
         : panels == 2 ? use(&RowProductKernel<1, 2>)
                       : use(&RowProductKernel<1, 4>);
}

}  // namespace

ErrorCode LoadWgmmaLayerKernels(int shared_bytes) {
  for (const int block_rows : {kGroupRows, 2 * kGroupRows, 4 * kGroupRows}) {
    for (const int panels : {1, 2, 4}) {
      const ErrorCode error = WithKernel(
          block_rows, panels, [&](auto kernel) { return LoadKernel(kernel, shared_bytes); });
      if (error != 0) return error;
    }
  }
  return 0;
}

ErrorCode LaunchRowProduct(const RowLayerParams& params, int block_rows, int shared_bytes,
                           Stream stream) {
  const RowProductLayout shared = RowProductLayoutOf(params, block_rows, shared_bytes);
  const RowProductParams kernel_params = {params, shared};
  const LaunchShape shape = {
      .blocks_x = params.tile_count * (kTileRows / block_rows),
      .threads = kThreads,
      .shared_bytes = shared.bytes,
  };
  return WithKernel(block_rows, Slabs(params.width),
                    [&](auto kernel) { return Launch(kernel, shape, stream, kernel_params); });
}

}  // namespace chorale::kernels::cuda
