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

// Two consumer warpgroups and one producer warpgroup. Only the producer's first warp works;
// registers are allocated per warpgroup, so the other three cost nothing.
constexpr int kThreads = (kConsumerWarps + kWarpgroupWarps) * kWarpSize;
[[maybe_unused]] constexpr int kProducerRegisters = 24;
[[maybe_unused]] constexpr int kConsumerRegisters = 240;

// Grid: x blocks of kGroups groups. As MmaLayerKernel, with the same bits, by wgmma: a producer
// warp loads what two consumer warpgroups compute with.
//
// -inf: as in MmaLayerKernel.
template <int kGroups, int kWidthTiles>
__global__ void __launch_bounds__(kThreads, 1)
    WgmmaLayerKernel(const __grid_constant__ WgmmaLayerParams params) {
  GridDepLaunch();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const WeightRing ring = RingOf(params);
  if (threadIdx.x == 0) {
    ring.Init();
    MbarrierInit(InputsReadyOf(params), 1);
  }
  __syncthreads();
  constexpr int kBlocksOfTile = kTileGroups / kGroups;
  const int tile_index = blockIdx.x / kBlocksOfTile;
  const int first_group = blockIdx.x % kBlocksOfTile * kGroups;
  if (threadIdx.x >= kConsumerWarps * kWarpSize) {
    RegDealloc<kProducerRegisters>();
    if (threadIdx.x / kWarpSize == kConsumerWarps) {
      ProducerWarp<kGroups * kGroupRows>(params, ring, tile_index, first_group);
    } else {
      GridDepWait();
    }
    return;
  }
  RegAlloc<kConsumerRegisters>();
  WgmmaLayerBlock<kGroups, kWidthTiles> block(params, ring, tile_index, first_group);
  block.Run();
#else
  GridDepWait();
#endif
}

// Calls use(kernel) for the kernel of a block's rows and of the weight tiles of D.
template <typename Use>
ErrorCode WithKernel(int block_rows, int64_t panels, const Use& use) {
  if (block_rows == 4 * kGroupRows) {
    return panels == 1   ? use(&WgmmaLayerKernel<4, 1>)
           : panels == 2 ? use(&WgmmaLayerKernel<4, 2>)
                         : use(&WgmmaLayerKernel<4, 4>);
  }
  if (block_rows == 2 * kGroupRows) {
    return panels == 1   ? use(&WgmmaLayerKernel<2, 1>)
           : panels == 2 ? use(&WgmmaLayerKernel<2, 2>)
                         : use(&WgmmaLayerKernel<2, 4>);
  }
  return panels == 1   ? use(&WgmmaLayerKernel<1, 1>)
         : panels == 2 ? use(&WgmmaLayerKernel<1, 2>)
                       : use(&WgmmaLayerKernel<1, 4>);
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

ErrorCode LaunchWgmmaLayer(const LayerParams& params, int block_rows, int shared_bytes,
                           Stream stream) {
  const WgmmaSmem shared = WgmmaSmemOf(params, block_rows, shared_bytes);
  const WgmmaLayerParams kernel_params = {params, shared};
  const LaunchShape shape = {
      .blocks_x = params.tile_count * (kTileRows / block_rows),
      .threads = kThreads,
      .shared_bytes = shared.bytes,
  };
  return WithKernel(block_rows, WeightTiles(params.width),
                    [&](auto kernel) { return Launch(kernel, shape, stream, kernel_params); });
}

}  // namespace chorale::kernels::cuda
