#include <algorithm>
#include <cassert>

#include "kernels/cuda/attention/buffer_split.cuh"
#include "kernels/cuda/layer/layers.h"
#include "kernels/cuda/layer/layers_buffers_sm90.cuh"
#include "kernels/cuda/layer/layers_params_sm90.cuh"
#include "kernels/cuda/layer/layers_sm90.cuh"
#include "kernels/cuda/layer/layers_units_sm90.cuh"
#include "kernels/cuda/layer/smem_layers_sm90.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kThreads = (kConsumerWarpgroups + 2) * kWarpgroupThreads;
// All together 512, as many as a multiprocessor has for each thread of a warpgroup.
template <bool kWholePaths>
struct LayersRegisters {
  static constexpr int kConsumer = kWholePaths ? 224 : 184;
  static constexpr int kBuffer = kWholePaths ? 24 : 112;
  static constexpr int kProducer = kWholePaths ? 40 : 32;
};

// The block's tile, which ReadTile has copied to shared memory.
__device__ __forceinline__ const Tile& TileOfBlock(const LayersKernelParams& params) {
  return *params.shared.tile_copy.At(OwnSmem());
}
template <typename T>
__device__ __forceinline__ void CopyByWarp(const T* from, T* to) {
  constexpr int kWords = sizeof(T) / 4;
  static_assert(sizeof(T) % 4 == 0 && kWords <= kWarpSize);
  const int lane = LaneIndex();
  if (lane >= kWords) return;
  reinterpret_cast<uint32_t*>(to)[lane] =
      LoadCg<uint32_t>(reinterpret_cast<const uint32_t*>(from) + lane);
}
// The tile, and its paths.
__device__ __forceinline__ void ReadTile(const LayersKernelParams& params) {
  if (WarpIndex() == 0) {
    CopyByWarp(params.paths.tiles + blockIdx.x, params.shared.tile_copy.At(DynamicSmem()));
  } else if (WarpIndex() == 1) {
    CopyByWarp(params.paths.paths + blockIdx.x, params.shared.paths_copy.At(DynamicSmem()));
  }
  __syncthreads();
}

// The fourth warpgroup.
template <bool kWholePaths>
__device__ __forceinline__ void Produce(const LayersKernelParams& params) {
  const Tile& tile = TileOfBlock(params);
  const int warp = WarpIndex() % kWarpgroupWarps;
  if (warp > kConsumerWarpgroups) {
    if constexpr (!kWholePaths) {
      if (tile.groups > 0) FillBuffers(params, tile);
    }
  } else if (LaneIndex() != 0) {
    return;
  } else if (warp < kConsumerWarpgroups) {
    UnitFiller(params, warp).Run(tile);
  } else if (tile.groups > 0) {
    FillVectors(params);
  }
}

// Grid: x tiles. Two warpgroups attend to the context, a head each, and compute all products with
// weights, half of the outputs each. Another one attends to the buffers, while they attend to the
// context; whole paths have none. Each warp of the fourth one copies something else for them.
//
// Before GridDepWait the kernel reads weights alone.
//
// -inf: as in WgmmaAttentionKernel and MmaLayerKernel.
template <bool kWholePaths, bool kWeighted>
__global__ void __launch_bounds__(kThreads, 1)
    LayersKernel(const __grid_constant__ LayersKernelParams params) {
  GridDepLaunch();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if (threadIdx.x == 0) LayersBarriers::Of(params).Init();
  __syncthreads();
  const int warpgroup = WarpgroupIndex();
  if (warpgroup > kConsumerWarpgroups) UnitFiller::FillFirst(params);
  GridDepWait();
  ReadTile(params);
  // Each warpgroup computes addresses of its own: see OwnSmem.
  using Registers = LayersRegisters<kWholePaths>;
  if (warpgroup > kConsumerWarpgroups) {
    RegDealloc<Registers::kProducer>();
    Produce<kWholePaths>(params);
  } else if (warpgroup == kConsumerWarpgroups) {
    RegDealloc<Registers::kBuffer>();
    if constexpr (!kWholePaths) {
      const Tile& tile = TileOfBlock(params);
      if (tile.groups > 0) AttendToBuffers(params, tile);
    }
  } else {
    RegAlloc<Registers::kConsumer>();
    const Tile& tile = TileOfBlock(params);
    if (tile.groups > 0) LayersConsumer<kWholePaths, kWeighted>(params, tile).Run();
  }
#else
  GridDepWait();
#endif
}

constexpr LayersSmem SmemOf(const ModelShape& shape) {
  return LayersSmemOf(shape, BufferStage<kLayersHeadDim>::kBytes, BufferState::kMlBytes);
}

}  // namespace

ErrorCode LoadLayersKernel(int shared_bytes) {
  for (const auto kernel : {&LayersKernel<false, false>, &LayersKernel<false, true>,
                            &LayersKernel<true, false>, &LayersKernel<true, true>}) {
    if (const ErrorCode error = LoadKernel(kernel, shared_bytes); error != 0) return error;
  }
  return 0;
}

bool HasLayersKernel(const ModelShape& shape, int layers, int shared_bytes) {
  return shape.width == 128 && shape.heads == 2 && shape.kv_heads == 2 &&
         shape.head_dim == kLayersHeadDim && shape.hidden > 128 && shape.hidden <= 256 &&
         layers <= kMostFusedLayers && SmemOf(shape).bytes <= shared_bytes;
}

ErrorCode LaunchLayers(const LayersParams& params, Stream stream) {
  assert(HasLayersKernel(params.shape, params.layers, SmemOf(params.shape).bytes));
  assert(ValidateEmbedPaths(params.paths).ok() && params.paths.width == params.shape.width);
  LayersKernelParams kernel_params = {};
  kernel_params.paths = params.paths;
  kernel_params.layer.x = params.paths.x;
  kernel_params.layer.shape = params.shape;
  kernel_params.layer.epsilon = params.epsilon;
  kernel_params.shared = SmemOf(params.shape);
  kernel_params.layers = params.layers;
  std::copy_n(params.weights, params.layers, kernel_params.weights);
  const LaunchShape shape = {
      .blocks_x = params.paths.tile_count,
      .threads = kThreads,
      .shared_bytes = kernel_params.shared.bytes,
  };
  const auto kernel =
      params.whole_paths
          ? (params.weighted ? &LayersKernel<true, true> : &LayersKernel<true, false>)
          : (params.weighted ? &LayersKernel<false, true> : &LayersKernel<false, false>);
  return Launch(kernel, shape, stream, kernel_params);
}

}  // namespace chorale::kernels::cuda
