#include <initializer_list>

#include "kernels/cuda/attention/attend_keys.cuh"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/buffer_keys.cuh"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kThreads = kTileGroups * kWarpSize;  // of a block, a group of rows to a warp

template <int kHeadDim>
struct Shape {
  using T = AttentionTraits<kHeadDim>;
  static constexpr int kStages = kHeadDim > 64 ? 2 : kHeadDim > 32 ? 3 : 4;
  using Merged = CombinedState<kHeadDim, kThreads>;
  // Blocks of keys, and behind them what the splits were merged to.
  static constexpr int kSharedBytes = kStages * T::kBlockBytes + Merged::kBytes;
  static_assert(T::kBlockBytes % (16 * kThreads) == 0);
};

template <int kHeadDim>
__device__ __forceinline__ void StoreState(const AttentionParams& p, int split_idx, int group,
                                           int head, const RowState<kHeadDim>& state) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = (static_cast<int64_t>(split_idx) * p.tile_count + blockIdx.x) * kTileRows +
                        group * kGroupRows + half * 8 + lane / 4;
    const int64_t at = row * p.heads + head;
    float* o = p.partial_o + at * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
      StoreAs<Floats2>(o + 8 * n, {state.o[n][2 * half], state.o[n][2 * half + 1]});
    }
    if (lane % 4 == 0) {
      StoreAs<Floats2>(p.partial_ml + at * 2, {state.m[half], state.l[half]});
    }
  }
}

// The blocks of context keys that one block of threads attends to, on their way through shared
// memory.
template <int kHeadDim, int kStages>
class ContextStream {
  using T = AttentionTraits<kHeadDim>;

 public:
  // Blocks [first, end) of one head.
  __device__ __forceinline__ ContextStream(const uint16_t* head, int first, int end)
      : head_(head), first_(first), end_(end) {}

  // Asks for all blocks that there is room for.
  __device__ __forceinline__ void Begin() {
    for (int i = 0; i < kStages - 1; ++i) Fetch(first_ + i);
  }

  // For all threads: waits for a block, and asks for one more. Blocks are taken in their order.
  __device__ __forceinline__ const uint16_t* Take(int block) {
    CpAsyncWait<kStages - 2>();
    __syncthreads();  // the block has arrived for all, and all are done with the one before it
    Fetch(block + kStages - 1);
    return reinterpret_cast<const uint16_t*>(At(block));
  }

 private:
  __device__ __forceinline__ char* At(int block) const {
    return DynamicSmem() + (block - first_) % kStages * T::kBlockBytes;
  }

  __device__ __forceinline__ void Fetch(int block) {
    if (block < end_) {
      const char* from = reinterpret_cast<const char*>(head_ + block * KeyBlockSize(kHeadDim));
      char* to = At(block);
#pragma unroll
      for (int i = 0; i < T::kBlockBytes / (16 * kThreads); ++i) {
        const int at = (i * kThreads + static_cast<int>(threadIdx.x)) * 16;
        CpAsync16(to + at, from + at);
      }
    }
    CpAsyncCommit();
  }

  const uint16_t* const head_;
  const int first_;
  const int end_;
};

// Grid: x tiles, y heads, z splits (1 when they are done together). A block owns one head of one
// tile's 64 rows, a warp 16 of them. The split's keys and values stream through shared memory once
// and are read by all warps; queries and states stay in registers; the split's positions of a
// path's buffer go from global memory to the four lanes that own its two rows.
//
// What is read before GridDepWait: the fields of the tile that no kernel changes, and with them
// the first keys of a context that was complete before the tile was uploaded.
//
// -inf: every block of context keys has at least one that counts, so m is finite after the first
// one; before it, only zeros are scaled. A split may have neither keys of the context nor positions
// of the buffer: its m stays -inf, and l and o zero.
template <int kHeadDim, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    AttentionKernel(const __grid_constant__ AttentionParams p) {
  using T = AttentionTraits<kHeadDim>;
  using S = Shape<kHeadDim>;
  GridDepLaunch();
  const Tile uploaded = LoadCg<Tile>(p.tiles + blockIdx.x);
  const int head = blockIdx.y;
  const int kv_head = head / (p.heads / p.kv_heads);
  const int group = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const bool together = p.split == KvSplit::kSingle;
  const int split_idx = blockIdx.z;
  const int rows = uploaded.context_rows;
  const int blocks = static_cast<int>(ContextKeyBlocks(rows));
  const int splits = static_cast<int>(ContextSplits(rows));
  const int split_blocks = static_cast<int>(SplitKeyBlocks(rows));
  const int first = split_idx * split_blocks;
  const int end = together ? blocks : min(blocks, first + split_blocks);
  ContextStream<kHeadDim, S::kStages> context(
      uploaded.context + p.layer * ContextLayerSize(rows, p.kv_heads, kHeadDim) +
          kv_head * blocks * KeyBlockSize(kHeadDim),
      first, end);
  const bool being_encoded = uploaded.first_row >= 0;
  if (!being_encoded) context.Begin();
  GridDepWait();
  const Tile tile = LoadCg<Tile>(p.tiles + blockIdx.x);
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kTileRows + group * kGroupRows;
  Queries<kHeadDim> q;
  q.Load(p.q + (first_row * p.heads + head) * kHeadDim, p.heads * kHeadDim, lane);
  if (tile.groups == 0 || split_idx >= splits) {
    CpAsyncWait<0>();
    return;
  }
  if (being_encoded) context.Begin();
  const bool in_use = group < tile.groups;
  BufferKeys<kHeadDim> buffer(tile, p.layer, p.kv_heads, kv_head, group * kGroupPaths + lane / 4,
                              splits);
  typename S::Merged combined(
      reinterpret_cast<float*>(DynamicSmem() + S::kStages * T::kBlockBytes));
  if (together) combined.Clear();
  RowState<kHeadDim> state;
  const int end_split = together ? splits : split_idx + 1;
  int block = first;
#pragma unroll 1
  for (int split = split_idx; split < end_split; ++split) {
    if (in_use) buffer.Begin(split);
    state.Clear();
    const int split_end = min(end, block + split_blocks);
#pragma unroll 1
    for (; block < split_end; ++block) {
      const uint16_t* keys = context.Take(block);
      if (!in_use) continue;
      const int valid = min(kKeyBlockKeys, rows - block * kKeyBlockKeys);
#pragma unroll 1
      for (int key = 0; key < kKeyBlockKeys; key += T::kKeys)
        AttendKeys(keys, key, valid, q, state);
    }
    if (!in_use) continue;
    buffer.Attend(split, q, state);
    state.FinishSplit();
    if (together) combined.Merge(state);
  }
  CpAsyncWait<0>();
  if (in_use) StoreState<kHeadDim>(p, split_idx, group, head, state);
}

template <int kHeadDim, int kBlocks>
ErrorCode LaunchAs(const AttentionParams& params, Stream stream) {
  using S = Shape<kHeadDim>;
  const LaunchShape shape = {
      .blocks_x = params.tile_count,
      .blocks_y = params.heads,
      .blocks_z = params.split == KvSplit::kSingle ? 1 : params.num_splits,
      .threads = kThreads,
      .shared_bytes = S::kSharedBytes,
  };
  return Launch(&AttentionKernel<kHeadDim, kBlocks>, shape, stream, params);
}

// Blocks on a multiprocessor bound the registers of a thread: where a launch has few blocks, each
// is faster with more.
ErrorCode LaunchFor32(const AttentionParams& params, Stream stream) {
  const int64_t num_splits = params.split == KvSplit::kSingle ? 1 : params.num_splits;
  const int64_t blocks = num_splits * params.tile_count * params.heads;
  return blocks > int64_t{3} * params.multiprocessors ? LaunchAs<32, 4>(params, stream)
                                                      : LaunchAs<32, 3>(params, stream);
}

}  // namespace

ErrorCode LoadAttentionKernels(int shared_bytes) {
  for (const auto kernel :
       {&AttentionKernel<16, 4>, &AttentionKernel<32, 3>, &AttentionKernel<32, 4>,
        &AttentionKernel<64, 2>, &AttentionKernel<128, 1>}) {
    if (const ErrorCode error = LoadKernel(kernel, shared_bytes); error != 0) return error;
  }
  return 0;
}

ErrorCode LaunchAttention(const AttentionParams& params, Stream stream) {
  switch (params.head_dim) {
    case 16:
      return LaunchAs<16, 4>(params, stream);
    case 32:
      return LaunchFor32(params, stream);
    case 64:
      return LaunchAs<64, 2>(params, stream);
    default:
      return LaunchAs<128, 1>(params, stream);
  }
}

}  // namespace chorale::kernels::cuda
