#include <initializer_list>

#include "kernels/cuda/attend_keys.cuh"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_state.cuh"
#include "kernels/cuda/buffer_reader.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/prepare.h"

namespace chorale::kernels::cuda {
namespace {

template <int kHeadDim>
__device__ __forceinline__ void StoreState(const AttentionParams& p, int slot, int head,
                                           const RowState<kHeadDim>& state) {
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = (static_cast<int64_t>(slot) * p.tile_count + blockIdx.x) * kTileRows +
                        warp * kGroupRows + half * 8 + lane / 4;
    const int64_t at = row * p.heads + head;
    float* o = p.chunk_o + at * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
      StoreAs<Floats2>(o + 8 * n, {state.o[n][2 * half], state.o[n][2 * half + 1]});
    }
    if (lane % 4 == 0) {
      StoreAs<Floats2>(p.chunk_state + at * 2, {state.m[half], state.l[half]});
    }
  }
}

// The blocks of context keys that one block of threads attends to, on their way through shared
// memory.
template <int kHeadDim>
class ContextStream {
  using T = AttentionTraits<kHeadDim>;

 public:
  // Blocks [first, end) of one head.
  __device__ __forceinline__ ContextStream(const uint16_t* head, int first, int end)
      : head_(head), first_(first), end_(end) {}

  // Asks for all blocks that there is room for.
  __device__ __forceinline__ void Begin() {
    for (int i = 0; i < T::kStages - 1; ++i) Fetch(first_ + i);
  }

  // For all threads: waits for a block, and asks for one more. Blocks are taken in their order.
  __device__ __forceinline__ const uint16_t* Take(int block) {
    WaitForCopies<T::kStages - 2>();
    __syncthreads();  // the block has arrived for all, and all are done with the one before it
    Fetch(block + T::kStages - 1);
    return reinterpret_cast<const uint16_t*>(At(block));
  }

 private:
  __device__ __forceinline__ char* At(int block) const {
    return Shared() + (block - first_) % T::kStages * T::kBlockBytes;
  }

  __device__ __forceinline__ void Fetch(int block) {
    if (block < end_) {
      const char* from = reinterpret_cast<const char*>(head_ + block * BlockSize(kHeadDim));
      char* to = At(block);
#pragma unroll
      for (int i = 0; i < T::kBlockBytes / (16 * kAttentionThreads); ++i) {
        const int at = (i * kAttentionThreads + static_cast<int>(threadIdx.x)) * 16;
        CopyLater16(to + at, from + at);
      }
    }
    CommitCopies();
  }

  const uint16_t* const head_;
  const int first_;
  const int end_;
};

// Grid: x tiles, y heads, z chunks (1 when they are done together). A block owns one head of one
// tile's 64 rows, a warp 16 of them. The chunk's keys and values stream through shared memory once
// and are read by all warps; queries and states stay in registers; the chunk's places of a path's
// buffer go from global memory to the four lanes that own its two rows.
//
// What is read before WaitForPrevious: the fields of the tile that no kernel changes, and with them
// the first keys of a context that was complete before the tile was uploaded.
//
// -inf: every block of context keys has at least one that counts, so m is finite after the first
// one; before it, only zeros are scaled. A chunk may have neither keys of the context nor places of
// the buffer: its m stays -inf, and l and o zero.
template <int kHeadDim, int kBlocks>
__global__ void __launch_bounds__(kAttentionThreads, kBlocks)
    AttentionKernel(const __grid_constant__ AttentionParams p) {
  using T = AttentionTraits<kHeadDim>;
  LetNextBegin();
  const Tile uploaded = LoadFresh<Tile>(p.tiles + blockIdx.x);
  const int head = blockIdx.y;
  const int kv_head = head / (p.heads / p.kv_heads);
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const bool together = p.split == ChunkSplit::kTogether;
  const int slot = blockIdx.z;
  const int rows = uploaded.context_rows;
  const int blocks = static_cast<int>(ContextBlocks(rows));
  const int chunks = static_cast<int>(ContextChunks(rows));
  const int chunk_blocks = static_cast<int>(ChunkBlocks(rows));
  const int first = slot * chunk_blocks;
  const int end = together ? blocks : min(blocks, first + chunk_blocks);
  ContextStream<kHeadDim> context(uploaded.context +
                                      p.layer * ContextLayerSize(rows, p.kv_heads, kHeadDim) +
                                      kv_head * blocks * BlockSize(kHeadDim),
                                  first, end);
  const bool being_encoded = uploaded.first_row >= 0;
  if (!being_encoded) context.Begin();
  WaitForPrevious();
  const Tile tile = LoadFresh<Tile>(p.tiles + blockIdx.x);
  Queries<kHeadDim> q;
  q.Load(
      p.q + ((static_cast<int64_t>(blockIdx.x) * kTileRows + warp * kGroupRows) * p.heads + head) *
                kHeadDim,
      p.heads * kHeadDim, lane);
  if (tile.groups == 0 || slot >= chunks) {
    WaitForCopies<0>();
    return;
  }
  if (being_encoded) context.Begin();
  const bool in_use = warp < tile.groups;
  BufferReader<kHeadDim> buffer(tile, p.layer, p.kv_heads, kv_head,
                                in_use ? warp * kGroupPaths + lane / 4 : kTilePaths, chunks);

  MergedState<kHeadDim, kAttentionThreads> merged(
      reinterpret_cast<float*>(Shared() + T::kStages * T::kBlockBytes));
  if (together) merged.Clear();
  RowState<kHeadDim> state;
  const int end_chunk = together ? chunks : slot + 1;
  int block = first;
#pragma unroll 1
  for (int chunk = slot; chunk < end_chunk; ++chunk) {
    if (in_use) buffer.Begin(chunk);
    state.Clear();
    const int chunk_end = min(end, block + chunk_blocks);
#pragma unroll 1
    for (; block < chunk_end; ++block) {
      const uint16_t* keys = context.Take(block);
      if (!in_use) continue;
      const int valid = min(kBlockKeys, rows - block * kBlockKeys);
#pragma unroll 1
      for (int key = 0; key < kBlockKeys; key += T::kKeys) {
        AttendKeys<kHeadDim>(keys, key, valid, q, state);
      }
    }
    if (!in_use) continue;
    buffer.Attend(chunk, q, state);
    state.FinishChunk();
    if (together) merged.Merge(state);
  }
  WaitForCopies<0>();
  if (!in_use) return;
  StoreState<kHeadDim>(p, slot, head, state);
}

template <int kHeadDim>
ErrorCode LaunchFor(const AttentionParams& params, Stream stream) {
  const LaunchShape shape = {
      .blocks_x = params.tile_count,
      .blocks_y = params.heads,
      .blocks_z = params.split == ChunkSplit::kTogether ? 1 : params.slots,
      .threads = kAttentionThreads,
      .shared_bytes = AttentionTraits<kHeadDim>::kSharedBytes,
  };
  using T = AttentionTraits<kHeadDim>;
  const int64_t blocks = int64_t{shape.blocks_x} * shape.blocks_y * shape.blocks_z;
  return blocks > int64_t{T::kBlocks} * params.multiprocessors
             ? Launch(&AttentionKernel<kHeadDim, T::kMostBlocks>, shape, stream, params)
             : Launch(&AttentionKernel<kHeadDim, T::kBlocks>, shape, stream, params);
}

}  // namespace

ErrorCode PrepareAttention(int shared_bytes) {
  for (const auto kernel : {&AttentionKernel<16, AttentionTraits<16>::kBlocks>,
                            &AttentionKernel<32, AttentionTraits<32>::kBlocks>,
                            &AttentionKernel<32, AttentionTraits<32>::kMostBlocks>,
                            &AttentionKernel<64, AttentionTraits<64>::kBlocks>,
                            &AttentionKernel<128, AttentionTraits<128>::kBlocks>}) {
    if (const ErrorCode error = PrepareKernel(kernel, shared_bytes); error != 0) return error;
  }
  return 0;
}

ErrorCode LaunchAttention(const AttentionParams& params, Stream stream) {
  switch (params.head_dim) {
    case 16:
      return LaunchFor<16>(params, stream);
    case 32:
      return LaunchFor<32>(params, stream);
    case 64:
      return LaunchFor<64>(params, stream);
    default:
      return LaunchFor<128>(params, stream);
  }
}

}  // namespace chorale::kernels::cuda
