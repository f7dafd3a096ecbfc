#include "kernels/cuda/layer/kernel_variants.h"
#include "kernels/cuda/layer/layer_wgmma_sm90.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
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

// MmaLayerKernel by wgmma, with the same bits: a producer warp loads weights and x for two consumer
// warpgroups. Grid: x blocks of kGroups groups. D is at most kWidthTiles weight tiles wide.
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

struct WgmmaKernels {
  template <int kGroups, int kWidthTiles>
  static constexpr auto kKernel = &WgmmaLayerKernel<kGroups, kWidthTiles>;
};

}  // namespace

ErrorCode LoadWgmmaLayerKernels(int shared_bytes) {
  return LoadVariants<WgmmaKernels>(shared_bytes);
}

ErrorCode LaunchWgmmaLayer(const LayerParams& params, int block_rows, int shared_bytes,
                           Stream stream) {
  const WgmmaLayerParams kernel_params = {params,
                                          WgmmaSmemOf(params.shape, block_rows, shared_bytes)};
  const LaunchShape shape = {
      .blocks_x = params.tile_count * (kTileRows / block_rows),
      .threads = kThreads,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return WithVariant<WgmmaKernels>(block_rows, WeightTiles(params.shape.width), [&](auto kernel) {
    return Launch(kernel, shape, stream, kernel_params);
  });
}

}  // namespace chorale::kernels::cuda
