#include "base/integer_math.h"
#include "kernels/cuda/attention/encode_attention.h"
#include "kernels/cuda/attention/encode_rows.cuh"
#include "kernels/cuda/attention/key_ring.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
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

// Grid: x kTiles tiles at a time, y heads. A block computes one head of the rows of its tiles, a
// consumer warpgroup those of one tile. A producer warp copies keys and values to a ring in shared
// memory, from which all warpgroups read them; scores, weights and states stay in registers. A
// warpgroup without a tile, in the last block, computes the last tile again and stores nothing.
//
// Before GridDepWait the kernel reads fields of a tile that no kernel changes, and nothing else.
//
// -inf: the first keys include a valid one, so m is finite after them; before, only zeros are
// scaled.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    EncodeAttentionKernel(const __grid_constant__ EncodeAttentionParams p) {
  GridDepLaunch();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Ring = typename Shape::Ring;
  const Ring ring = {DynamicSmem()};
  if (threadIdx.x == 0) ring.Init();
  __syncthreads();
  const Tile tile = LoadCg<Tile>(p.tiles + static_cast<int>(blockIdx.x) * Shape::kTiles);
  if (threadIdx.x >= Shape::kTiles * kWarpgroupThreads) {
    RegDealloc<Shape::kProducerRegisters>();
    GridDepWait();
    if (threadIdx.x > Shape::kTiles * kWarpgroupThreads) return;
    const int key_blocks = static_cast<int>(ContextKeyBlocks(tile.context_rows));
    const int kv_head = blockIdx.y / (p.heads / p.kv_heads);
    FillRing<kEncodeHeadDim>(
        ring,
        tile.context + p.layer * ContextLayerSize(tile.context_rows, p.kv_heads, kEncodeHeadDim) +
            kv_head * key_blocks * KeyBlockSize(kEncodeHeadDim),
        key_blocks);
    return;
  }
  RegAlloc<Shape::kConsumerRegisters>();
  GridDepWait();
  EncodeRows<Shape>(p, ring).Attend(tile.context_rows);
#else
  GridDepWait();
#endif
}

using ChosenShape = EncodeShape<3, 128, 4, QueriesIn::kSharedMemory>;

}  // namespace

ErrorCode LoadEncodeAttentionKernel(int shared_bytes) {
  return LoadKernel(&EncodeAttentionKernel<ChosenShape>, shared_bytes);
}

ErrorCode LaunchEncodeAttention(const EncodeAttentionParams& params, Stream stream) {
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(params.tile_count, ChosenShape::kTiles)),
      .blocks_y = params.heads,
      .threads = ChosenShape::kThreads,
      .shared_bytes = ChosenShape::kSharedBytes,
  };
  return Launch(&EncodeAttentionKernel<ChosenShape>, shape, stream, params);
}

}  // namespace chorale::kernels::cuda
