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

// Grid: x kTiles tiles at a time (EncodeShape), y heads. A block computes one head of the rows of
// its tiles, a consumer warpgroup those of one tile. A producer thread copies keys and values to a
// ring in shared memory, from which all warpgroups read them; scores, weights and states stay in
// registers. A warpgroup without a tile, in the last block, computes the last tile again and stores
// nothing.
//
// Before GridDepWait the kernel reads fields of a tile that no kernel changes, and nothing else.
//
// -inf: the first key block has a valid key, so m is finite after it; before, only zeros are
// scaled.
__global__ void __launch_bounds__(EncodeShape::kThreads, 1)
    EncodeAttentionKernel(const __grid_constant__ EncodeAttentionParams p) {
  GridDepLaunch();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const KeyRing ring = {DynamicSmem()};
  if (threadIdx.x == 0) ring.Init();
  __syncthreads();
  const Tile tile = LoadCg<Tile>(p.tiles + static_cast<int>(blockIdx.x) * EncodeShape::kTiles);
  constexpr int kProducer = EncodeShape::kTiles * kWarpgroupThreads;
  if (threadIdx.x >= kProducer) {
    RegDealloc<EncodeShape::kProducerRegisters>();
    GridDepWait();
    if (threadIdx.x > kProducer) return;
    const int key_blocks = static_cast<int>(ContextKeyBlocks(tile.context_rows));
    const int kv_head = blockIdx.y / (p.heads / p.kv_heads);
    FillRing(ring,
             tile.context +
                 p.layer * ContextLayerSize(tile.context_rows, p.kv_heads, kEncodeHeadDim) +
                 kv_head * key_blocks * KeyBlockSize(kEncodeHeadDim),
             key_blocks);
    return;
  }
  RegAlloc<EncodeShape::kConsumerRegisters>();
  GridDepWait();
  EncodeRows(p, ring).Attend(tile.context_rows);
#else
  GridDepWait();
#endif
}

}  // namespace

ErrorCode LoadEncodeAttentionKernel(int shared_bytes) {
  return LoadKernel(&EncodeAttentionKernel, shared_bytes);
}

ErrorCode LaunchEncodeAttention(const EncodeAttentionParams& params, Stream stream) {
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(params.tile_count, EncodeShape::kTiles)),
      .blocks_y = params.heads,
      .threads = EncodeShape::kThreads,
      .shared_bytes = EncodeShape::kSharedBytes,
  };
  return Launch(&EncodeAttentionKernel, shape, stream, params);
}

}  // namespace chorale::kernels::cuda
