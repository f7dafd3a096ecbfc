#include <cassert>
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
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kThreads = kTileGroups * kWarpSize;  // of a block: one warp for each group of rows

template <int kHeadDim>
struct Shape {
  using T = AttentionTraits<kHeadDim>;
  static constexpr int kStages = kHeadDim > 64 ? 2 : kHeadDim > 32 ? 3 : 4;
  using Combined = CombinedState<kHeadDim, kThreads>;
  // The ring of key blocks, then the combined state.
  static constexpr int kSharedBytes = kStages * T::kKeyBlockBytes + Combined::kBytes;
  static_assert(T::kKeyBlockBytes % (16 * kThreads) == 0);
};

// Stores the state of a warp's rows as a partial.
template <int kHeadDim>
__device__ __forceinline__ void StoreState(const AttentionParams& p, int split_idx, int group,
                                           int head, const RowState<kHeadDim>& state) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = (static_cast<int64_t>(split_idx) * p.tile_count + blockIdx.x) * kTileRows +
                        group * kGroupRows + half * 8 + lane / 4;
    const int64_t at = row * p.shape.heads + head;
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

// Stores attention of a warp's rows. A row without keys has l = 0; its attention is 0.
template <int kHeadDim>
__device__ __forceinline__ void StoreAttended(const AttentionParams& p, int group, int head,
                                              const RowState<kHeadDim>& state) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row =
        static_cast<int64_t>(blockIdx.x) * kTileRows + group * kGroupRows + half * 8 + lane / 4;
    uint16_t* to = p.attended + (row * p.shape.heads + head) * kHeadDim + lane % 4 * 2;
    const float divisor = state.l[half] > 0 ? Rcp(state.l[half]) : 0.0f;
#pragma unroll
    for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
      StoreAs<uint32_t>(
          to + 8 * n, PackBf16(state.o[n][2 * half] * divisor, state.o[n][2 * half + 1] * divisor));
    }
  }
}

// A ring of kStages - 1 prefetched key blocks in shared memory, and the one in use.
template <int kHeadDim, int kStages>
class ContextStream {
  using T = AttentionTraits<kHeadDim>;

 public:
  // Streams key blocks [first, end) of `head`, the context's K and V of one head.
  __device__ __forceinline__ ContextStream(const uint16_t* head, int first, int end)
      : head_(head), first_(first), end_(end) {}

  // Starts to copy the first key blocks.
  __device__ __forceinline__ void Begin() {
    for (int i = 0; i < kStages - 1; ++i) Fetch(first_ + i);
  }

  // Waits for a key block and starts to copy one more. Called by all threads, in the order of the
  // key blocks.
  __device__ __forceinline__ const uint16_t* Take(int key_block) {
    CpAsyncWait<kStages - 2>();
    __syncthreads();  // all threads see the key block, and have finished the previous one
    Fetch(key_block + kStages - 1);
    return reinterpret_cast<const uint16_t*>(At(key_block));
  }

 private:
  __device__ __forceinline__ char* At(int key_block) const {
    return DynamicSmem() + (key_block - first_) % kStages * T::kKeyBlockBytes;
  }

  __device__ __forceinline__ void Fetch(int key_block) {
    if (key_block < end_) {
      const char* from = reinterpret_cast<const char*>(head_ + key_block * KeyBlockSize(kHeadDim));
      char* to = At(key_block);
#pragma unroll
      for (int i = 0; i < T::kKeyBlockBytes / (16 * kThreads); ++i) {
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

// Attends to the key blocks from `key_block` up to `end`, and advances key_block. Called by all
// threads; warps whose rows are not in use only help to copy.
template <int kHeadDim, int kStages>
__device__ __forceinline__ void AttendContext(ContextStream<kHeadDim, kStages>& context,
                                              int context_rows, int end, bool in_use,
                                              const Queries<kHeadDim>& q, int& key_block,
                                              RowState<kHeadDim>& state) {
#pragma unroll 1
  for (; key_block < end; ++key_block) {
    const uint16_t* keys = context.Take(key_block);
    const int valid = min(kKeyBlockKeys, context_rows - key_block * kKeyBlockKeys);
    if (in_use) AttendKeyBlock(keys, valid, q, state);
  }
}

// Grid: x tiles, y heads, z splits (1 with KvSplit::kSingle). A block computes one head of one
// tile's 64 rows, a warp 16 of them. Keys and values of the context are copied to shared memory
// once and read by all warps; queries and states stay in registers; keys and values of a path's
// buffer are loaded from global memory by the four lanes that hold the path's two rows.
//
// Before GridDepWait the kernel reads the fields of the tile that no kernel changes, and the first
// keys of a context that was complete before the tile was uploaded.
//
// -inf: every key block has a valid key, so m is finite after the first one; before it, only zeros
// are scaled. A split may have neither keys of the context nor positions of the buffer: then its m
// stays -inf, and its l and o zero.
template <int kHeadDim, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    AttentionKernel(const __grid_constant__ AttentionParams p) {
  using T = AttentionTraits<kHeadDim>;
  using S = Shape<kHeadDim>;
  GridDepLaunch();
  const Tile uploaded = LoadCg<Tile>(p.tiles + blockIdx.x);
  const int head = blockIdx.y;
  const int kv_head = head / (p.shape.heads / p.shape.kv_heads);
  const int group = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const bool single = p.split == KvSplit::kSingle;
  const int split_idx = blockIdx.z;
  const int rows = uploaded.context_rows;
  const int key_blocks = static_cast<int>(ContextKeyBlocks(rows));
  const int splits = static_cast<int>(ContextSplits(rows));
  const int split_key_blocks = static_cast<int>(SplitKeyBlocks(rows));
  const int first = split_idx * split_key_blocks;
  const int end = single ? key_blocks : min(key_blocks, first + split_key_blocks);
  ContextStream<kHeadDim, S::kStages> context(
      uploaded.context +
          ContextKeyBlockAt(p.layer, kv_head, /*key_block=*/0, rows, p.shape.kv_heads, kHeadDim),
      first, end);
  const bool being_encoded = uploaded.first_row >= 0;
  if (!being_encoded) context.Begin();
  GridDepWait();
  const Tile tile = LoadCg<Tile>(p.tiles + blockIdx.x);
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kTileRows + group * kGroupRows;
  Queries<kHeadDim> q;
  q.Load(p.q + first_row * p.q_stride + head * kHeadDim, p.q_stride, lane);
  if (tile.groups == 0 || split_idx >= splits) {
    CpAsyncWait<0>();
    return;
  }
  if (being_encoded) context.Begin();
  const bool in_use = group < tile.groups;
  BufferKeys<kHeadDim> buffer(tile, p.layer, p.shape.kv_heads, kv_head,
                              group * kGroupPaths + lane / 4, splits);
  typename S::Combined combined(
      reinterpret_cast<float*>(DynamicSmem() + S::kStages * T::kKeyBlockBytes));
  if (single) combined.Clear();
  RowState<kHeadDim> state;
  const int end_split = single ? splits : split_idx + 1;
  int key_block = first;
#pragma unroll 1
  for (int split = split_idx; split < end_split; ++split) {
    if (in_use) buffer.Begin(split);
    state.Clear();
    AttendContext(context, rows, min(end, key_block + split_key_blocks), in_use, q, key_block,
                  state);
    if (!in_use) continue;
    buffer.Attend(split, q, state);
    state.FinishSplit();
    if (single) combined.Combine(state);
  }
  CpAsyncWait<0>();
  if (!in_use) return;
  if (p.attended != nullptr) {
    StoreAttended<kHeadDim>(p, group, head, state);
  } else {
    StoreState<kHeadDim>(p, split_idx, group, head, state);
  }
}

// kBlocks: blocks of a multiprocessor.
template <int kHeadDim, int kBlocks>
ErrorCode LaunchAs(const AttentionParams& params, Stream stream) {
  using S = Shape<kHeadDim>;
  const LaunchShape shape = {
      .blocks_x = params.tile_count,
      .blocks_y = params.shape.heads,
      .blocks_z = params.split == KvSplit::kSingle ? 1 : params.num_splits,
      .threads = kThreads,
      .shared_bytes = S::kSharedBytes,
  };
  return Launch(&AttentionKernel<kHeadDim, kBlocks>, shape, stream, params);
}

// The blocks of a multiprocessor limit the registers of a thread. In a launch of few blocks, three
// blocks with more registers are faster than four.
ErrorCode LaunchFor32(const AttentionParams& params, Stream stream) {
  const int64_t num_splits = params.split == KvSplit::kSingle ? 1 : params.num_splits;
  const int64_t blocks = num_splits * params.tile_count * params.shape.heads;
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

ErrorCode LaunchAttention(const AttentionParams& given, Stream stream) {
  assert(ValidateAttention(given).ok());
  AttentionParams params = given;
  if (params.q_stride == 0) params.q_stride = params.shape.query_width();
  switch (params.shape.head_dim) {
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
