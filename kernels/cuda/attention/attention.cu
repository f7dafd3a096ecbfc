#include <cassert>
#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/attention/attend_keys.cuh"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_wgmma_sm90.h"
#include "kernels/cuda/attention/buffer_keys.cuh"
#include "kernels/cuda/attention/buffer_split.cuh"
#include "kernels/cuda/attention/buffer_stream.cuh"
#include "kernels/cuda/attention/context_stream.cuh"
#include "kernels/cuda/attention/key_log_weights.cuh"
#include "kernels/cuda/attention/shifted_softmax.cuh"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/attention/store_attention.cuh"
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
  // The ring of key blocks, or stages of buffers; the combined state.
  static constexpr int kBuffersBytes =
      HasBufferSplit(kHeadDim) ? BufferStream<kHeadDim>::kBytes : 0;
  static constexpr int kRingBytes = kStages * T::kKeyBlockBytes;
  static constexpr int kCombinedAt = kRingBytes > kBuffersBytes ? kRingBytes : kBuffersBytes;
  static constexpr int kSharedBytes = kCombinedAt + Combined::kBytes;
};

// One key split of a warp's rows. Called by all threads of a block; warps whose rows are not in use
// only help to copy.
template <int kHeadDim, typename Weights>
class KeySplit {
  using S = Shape<kHeadDim>;
  using Stream = ContextStream<kHeadDim, S::kStages, kThreads>;

 public:
  __device__ __forceinline__ KeySplit(Stream& context, int context_rows, const Weights& log_weights,
                                      bool in_use, const Queries<kHeadDim>& q)
      : context_(context),
        context_rows_(context_rows),
        log_weights_(log_weights),
        in_use_(in_use),
        q_(q) {}

  // Attends to key blocks [first, end), and sets `state`, with l summed up. In a first sweep
  // weights are 2^score; another one, in which they are 2^(score - m), follows if the block has
  // rows whose sum is then not a plain one. m stays 0 for the others, which get the same bits
  // again.
  __device__ __forceinline__ void Attend(int first, int end, RowState<kHeadDim>& state) const {
    ShiftedSoftmax softmax = {};
    Sweep<false>(first, end, softmax, state);
    const bool plain[2] = {IsPlainSum(state.l[0]), IsPlainSum(state.l[1])};
    if (__syncthreads_or(in_use_ && !(plain[0] && plain[1])) != 0) {
      context_.Restart(first);
      softmax.Clear(plain);
      Sweep<true>(first, end, softmax, state);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) state.m[half] = softmax.m[half];
  }

 private:
  template <bool kShifted>
  __device__ __forceinline__ void Sweep(int first, int end, ShiftedSoftmax& softmax,
                                        RowState<kHeadDim>& state) const {
    state.Clear();
    softmax.l[0] = softmax.l[1] = 0;
#pragma unroll 1
    for (int key_block = first; key_block < end; ++key_block) {
      const int left = context_rows_ - key_block * kKeyBlockKeys;
      const uint32_t keys = context_.Take(key_block);
      if (in_use_) AttendKeyBlock<kShifted>(keys, left, log_weights_, q_, softmax, state.o);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) state.l[half] = SumOverLanes<4>(softmax.l[half]);
  }

  Stream& context_;
  const int context_rows_;
  const Weights log_weights_;
  const bool in_use_;
  const Queries<kHeadDim>& q_;
};

template <int kHeadDim>
__device__ __forceinline__ void AttendToBuffers(const AttentionParams& p, const Tile& tile,
                                                int kv_head, int split, int group,
                                                const Queries<kHeadDim>& q,
                                                RowState<kHeadDim>& state) {
  if constexpr (HasBufferSplit(kHeadDim)) {
    const TileBuffers buffers(tile, p.shape, p.layer, kv_head);
    BufferStream<kHeadDim> stream(buffers, split, split + 1, group, /*memory=*/0);
    BufferSplit<kHeadDim, BufferStream<kHeadDim>>(tile, group, q)
        .Attend(buffers.positions, split, /*in_use=*/true, stream, state);
  } else {
    BufferKeys<kHeadDim>(tile, p.layer, p.shape.kv_heads, kv_head,
                         group * kGroupPaths + LaneIndex() / 4)
        .Attend(split, q, state);
  }
}

// Grid: x tiles, y heads, z splits (1 with KvSplit::kSingle). A block computes one head of one
// tile's 64 rows, a warp 16 of them. Keys and values of the context are copied to shared memory
// once and read by all warps; queries and states stay in registers; keys and values of a path's
// buffer are copied to shared memory, or loaded by the four lanes that hold the path's two rows.
//
// Before GridDepWait the kernel reads the fields of the tile that no kernel changes, and the first
// keys of a context that was complete before the tile was uploaded.
//
// -inf: every key block has a valid key, so the m of a shifted sweep is finite after the first one;
// before it, only zeros are scaled. The split of the buffers may have no positions: then its m
// stays -inf, and its l and o zero.
template <int kHeadDim, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    AttentionKernel(const __grid_constant__ AttentionParams p) {
  using S = Shape<kHeadDim>;
  GridDepLaunch();
  const Tile uploaded = LoadCg<Tile>(p.tiles + blockIdx.x);
  const int head = blockIdx.y;
  const int kv_head = head / (p.shape.heads / p.shape.kv_heads);
  const int group = static_cast<int>(threadIdx.x) / kWarpSize;
  const bool single = p.split == KvSplit::kSingle;
  const int split_idx = blockIdx.z;
  const int rows = uploaded.context_rows;
  const int key_blocks = static_cast<int>(ContextKeyBlocks(rows));
  const int splits = static_cast<int>(ContextSplits(rows));
  const auto all_splits = static_cast<int>(KvSplits(rows, uploaded.buffer_capacity));
  const int split_key_blocks = static_cast<int>(SplitKeyBlocks(rows));
  const int first = split_idx * split_key_blocks;
  const int end = single ? key_blocks : min(key_blocks, first + split_key_blocks);
  ContextStream<kHeadDim, S::kStages, kThreads> context(
      uploaded.context + ContextKeyBlockAt(p.layer, kv_head, /*key_block=*/0,
                                           uploaded.context_capacity, p.shape.kv_heads, kHeadDim),
      first, end);
  const bool being_encoded = uploaded.first_row >= 0;
  if (!being_encoded) context.Begin();
  GridDepWait();
  const Tile tile = LoadCg<Tile>(p.tiles + blockIdx.x);
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kTileRows + group * kGroupRows;
  Queries<kHeadDim> q;
  q.Load(p.q + first_row * p.q_stride + head * kHeadDim, p.q_stride);
  if (tile.groups == 0 || (!single && split_idx >= all_splits)) {
    CpAsyncWait<0>();
    return;
  }
  if (being_encoded) context.Begin();
  const bool in_use = group < tile.groups;
  typename S::Combined combined(DynamicSmem() + S::kCombinedAt,
                                DynamicSmem() + S::kCombinedAt + S::Combined::kSumsBytes,
                                ThreadIndex());
  if (single) combined.Clear();
  RowState<kHeadDim> state;
  const int end_split = single ? all_splits : split_idx + 1;
  const auto attend = [&](const auto& log_weights) {
    const KeySplit<kHeadDim, std::decay_t<decltype(log_weights)>> keys(context, rows, log_weights,
                                                                       in_use, q);
#pragma unroll 1
    for (int split = split_idx; split < min(splits, end_split); ++split) {
      const int begin = split * split_key_blocks;
      keys.Attend(begin, min(end, begin + split_key_blocks), state);
      if (in_use && single) combined.Combine(state);
    }
  };
  if (uploaded.context_log_weights == nullptr) {
    attend(NoLogWeights());
  } else {
    attend(KeyLogWeights(uploaded, p.layer, kv_head, p.shape.kv_heads));
  }
  context.End();  // the buffers may use its shared memory
  if (!in_use) return;
  RowState<kHeadDim> of_buffers;
  of_buffers.Clear();
#pragma unroll 1
  for (int split = max(splits, split_idx); split < end_split; ++split) {
    AttendToBuffers(p, tile, kv_head, split - splits, group, q, state);
    of_buffers.Combine(state);
  }
  if (single) {
    combined.Combine(of_buffers);
    combined.Load(state);
  }
  if (p.attended != nullptr) {
    StoreAttended<kHeadDim>(p, blockIdx.x, group, head, state);
  } else {
    StoreState<kHeadDim>(p, blockIdx.x, split_idx, group, head, state);
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
  if (params.use_wgmma) {
    return params.split == KvSplit::kSingle ? LaunchWgmmaAttention(params, stream)
                                            : LaunchWgmmaSplitAttention(params, stream);
  }
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
