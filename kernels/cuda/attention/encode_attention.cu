#include <cassert>
#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/attention/encode_attention.h"
#include "kernels/cuda/attention/encode_rows.cuh"
#include "kernels/cuda/attention/key_log_weights.cuh"
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

struct EncodeKernelParams {
  EncodeAttentionParams attention;
  EncodeBlocks blocks;  // of each head
};

// Blocks of three tiles come first, head by head, so that blocks that run together read the same
// keys.
[[maybe_unused]] __device__ __forceinline__ EncodeTask TaskOf(const EncodeKernelParams& params) {
  const EncodeBlocks& blocks = params.blocks;
  const auto block = static_cast<int>(blockIdx.x);
  const int threes = blocks.of_three * params.attention.shape.heads;
  EncodeTask task;
  int most = kEncodeBlockTiles;
  if (block < threes) {
    task.head = block / blocks.of_three;
    task.first_tile = block % blocks.of_three * kEncodeBlockTiles;
  } else {
    most = blocks.other_tiles;
    task.head = (block - threes) / blocks.others;
    task.first_tile = blocks.of_three * kEncodeBlockTiles + (block - threes) % blocks.others * most;
  }
  task.tiles = min(most, params.attention.tile_count - task.first_tile);
  return task;
}

// Fills a ring with all key blocks of a head. Called by one thread.
template <typename Ring>
__device__ __forceinline__ void FillRing(RingFiller<Ring>& filler, const uint16_t* head,
                                         int key_blocks) {
#pragma unroll 1
  for (int first = 0; first < key_blocks; first += Ring::kKeyBlocks) {
    filler.Fill(head, first, key_blocks);
  }
}

// Grid: x blocks of all heads (EncodeBlocks). A block computes one head of the rows of its tiles, a
// consumer warpgroup those of one tile. A producer thread copies keys and values to a ring in
// shared memory, from which all warpgroups read them; scores, weights and states stay in registers.
// A warpgroup without a tile only empties the ring's stages, like the others. If a row needs the
// shifted sweep (EncodeRows), the whole block takes it.
//
// Before GridDepWait the kernel reads fields of a tile that no kernel changes, and nothing else.
//
// -inf: scores of keys that are not there; the first key block has a valid key, so the m of a
// shifted sweep is finite after it, and before, only zeros are scaled.
template <int kHeadDim>
__global__ void __launch_bounds__(EncodeShape<kHeadDim>::kThreads, 1)
    EncodeAttentionKernel(const __grid_constant__ EncodeKernelParams params) {
  GridDepLaunch();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = EncodeShape<kHeadDim>;
  const EncodeAttentionParams& p = params.attention;
  const EncodeTask task = TaskOf(params);
  const EncodeRing<kHeadDim> ring = {DynamicSmem()};
  auto& vote = *reinterpret_cast<typename Shape::Vote*>(DynamicSmem() + Shape::kVoteAt);
  if (threadIdx.x == 0) {
    ring.Init(Shape::kTiles);
    vote.Init();
  }
  __syncthreads();
  const Tile tile = LoadCg<Tile>(p.tiles + task.first_tile);
  constexpr int kProducer = Shape::kTiles * kWarpgroupThreads;
  if (threadIdx.x >= kProducer) {
    RegDealloc<Shape::kProducerRegisters>();
    GridDepWait();
    if (threadIdx.x > kProducer) return;
    const int key_blocks = static_cast<int>(ContextKeyBlocks(tile.context_rows));
    const uint16_t* const head =
        tile.context + ContextKeyBlockAt(p.layer, task.KvHead(p.shape), /*key_block=*/0,
                                         tile.context_capacity, p.shape.kv_heads, kHeadDim);
    RingFiller<EncodeRing<kHeadDim>> filler(ring);
    FillRing(filler, head, key_blocks);
    if (vote.Result()) FillRing(filler, head, key_blocks);
    return;
  }
  RegAlloc<Shape::kConsumerRegisters>();
  GridDepWait();
  if (WarpgroupIndex() >= task.tiles) {
    RingReader<EncodeRing<kHeadDim>> keys(ring);
    keys.Drain(tile.context_rows);
    vote.Vote(false);
    if (vote.Result()) keys.Drain(tile.context_rows);
    return;
  }
  const auto attend = [&](const auto& log_weights) {
    EncodeRows<kHeadDim, std::decay_t<decltype(log_weights)>> rows(p, task, log_weights, ring);
    vote.Vote(rows.PlainSweep(tile.context_rows));
    if (vote.Result()) rows.ShiftedSweep(tile.context_rows);
  };
  if (tile.context_log_weights == nullptr) {
    attend(NoLogWeights());
  } else {
    attend(KeyLogWeights(tile, p.layer, task.KvHead(p.shape), p.shape.kv_heads));
  }
#else
  GridDepWait();
#endif
}

template <int kHeadDim>
ErrorCode LaunchAs(const EncodeKernelParams& params, Stream stream) {
  const EncodeBlocks& blocks = params.blocks;
  const LaunchShape shape = {
      .blocks_x = (blocks.of_three + blocks.others) * params.attention.shape.heads,
      .threads = EncodeShape<kHeadDim>::kThreads,
      .shared_bytes = EncodeShape<kHeadDim>::kSharedBytes,
  };
  return Launch(&EncodeAttentionKernel<kHeadDim>, shape, stream, params);
}

}  // namespace

ErrorCode LoadEncodeAttentionKernels(int shared_bytes) {
  for (const auto kernel : {&EncodeAttentionKernel<32>, &EncodeAttentionKernel<64>}) {
    if (const ErrorCode error = LoadKernel(kernel, shared_bytes); error != 0) return error;
  }
  return 0;
}

ErrorCode LaunchEncodeAttention(const EncodeAttentionParams& params, Stream stream) {
  assert(ValidateEncodeAttention(params).ok());
  const EncodeKernelParams kernel_params = {
      params, ChooseEncodeBlocks(params.tile_count, params.shape.heads, params.multiprocessors)};
  return params.shape.head_dim == 32 ? LaunchAs<32>(kernel_params, stream)
                                     : LaunchAs<64>(kernel_params, stream);
}

}  // namespace chorale::kernels::cuda
