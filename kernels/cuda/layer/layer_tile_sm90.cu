#include <initializer_list>

#include "kernels/cuda/layer/layer_tile_sm90.cuh"
#include "kernels/cuda/layer/layer_tile_sm90.h"
#include "kernels/cuda/layer/producer_sm90.cuh"
#include "kernels/cuda/layer/smem_tile_sm90.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

// As in WgmmaLayerKernel.
constexpr int kThreads = (kConsumerWarps + kWarpgroupWarps) * kWarpSize;
[[maybe_unused]] constexpr int kProducerRegisters = 24;
[[maybe_unused]] constexpr int kConsumerRegisters = 240;

// MmaLayerKernel with the same bits for models whose rows fit into one weight tile (HasTileKernel):
// a producer thread loads weights for two consumer warpgroups, which keep x in registers. Grid: x
// tiles.
//
// -inf: as in MmaLayerKernel.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    TileLayerKernel(const __grid_constant__ TileLayerParams params) {
  GridDepLaunch();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const WeightRing ring = RingOf(params);
  if (threadIdx.x == 0) {
    ring.Init();
    MbarrierInit(InputsReadyOf(params), 1);
  }
  __syncthreads();
  const auto tile_index = static_cast<int>(blockIdx.x);
  constexpr int kProducer = kConsumerWarps * kWarpSize;
  if (threadIdx.x >= kProducer) {
    RegDealloc<kProducerRegisters>();
    const LayerParams& p = params.layer;
    WeightLoader weights(p, p.post_attention.wgmma_column_tiles, p.pre_attention.wgmma_column_tiles,
                         ring);
    if (threadIdx.x == kProducer) {
      CopyVectors(params, 0);
      weights.Fill(ring.stages);
    }
    GridDepWait();
    if (threadIdx.x == kProducer) CopyWeights(params, tile_index, 0, ring, weights);
    return;
  }
  RegAlloc<kConsumerRegisters>();
  GridDepWait();
  const Tile tile = LoadCg<Tile>(params.layer.tiles + tile_index);
  if (tile.groups == 0) return;
  TileLayerBlock<kHeadDim>(params.layer, params.shared, RingConsumer(ring, WarpgroupIndex()), tile)
      .Run();
#else
  GridDepWait();
#endif
}

// Returns use(kernel) for heads of this width.
template <typename Use>
ErrorCode WithHeadDim(int head_dim, const Use& use) {
  if (head_dim == 16) return use(&TileLayerKernel<16>);
  if (head_dim == 32) return use(&TileLayerKernel<32>);
  return head_dim == 64 ? use(&TileLayerKernel<64>) : use(&TileLayerKernel<128>);
}

}  // namespace

ErrorCode LoadTileLayerKernels(int shared_bytes) {
  for (const int head_dim : {16, 32, 64, 128}) {
    const ErrorCode error =
        WithHeadDim(head_dim, [&](auto kernel) { return LoadKernel(kernel, shared_bytes); });
    if (error != 0) return error;
  }
  return 0;
}

ErrorCode LaunchTileLayer(const LayerParams& params, int shared_bytes, Stream stream) {
  const TileLayerParams kernel_params = {params, TileSmemOf(params.shape, shared_bytes)};
  const LaunchShape shape = {
      .blocks_x = params.tile_count,
      .threads = kThreads,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return WithHeadDim(params.shape.head_dim,
                     [&](auto kernel) { return Launch(kernel, shape, stream, kernel_params); });
}

}  // namespace chorale::kernels::cuda
