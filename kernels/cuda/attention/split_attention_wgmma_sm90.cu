#include <initializer_list>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_wgmma_sm90.h"
#include "kernels/cuda/attention/buffer_split.cuh"
#include "kernels/cuda/attention/buffer_stream.cuh"
#include "kernels/cuda/attention/key_log_weights.cuh"
#include "kernels/cuda/attention/key_ring.cuh"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/attention/store_attention.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/attention/wgmma_sweep.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

// Sizes of a block.
template <int kHeadDim>
struct SplitShape {
  // A split of a context of up to 8,192 rows, with heads of 64 elements of up to 4,096, fits into
  // the ring.
  using Ring = KeyRing<kHeadDim, /*kStageKeyBlocks=*/2, kHeadDim == 64 ? 2 : 4>;
  static constexpr int kBuffersBytes = BufferStream<kHeadDim>::kBytes;
  static constexpr int kSharedBytes = Ring::kBytes > kBuffersBytes ? Ring::kBytes : kBuffersBytes;
  // Of a multiprocessor, limited by registers.
  static constexpr int kBlocks = kHeadDim == 64 ? 2 : 3;
};

// What a block computes: a split of one head of a tile's rows.
struct SplitTask {
  int tile = static_cast<int>(blockIdx.x);
  int head = static_cast<int>(blockIdx.y);
  int split = static_cast<int>(blockIdx.z);

  // The q of a warp's rows.
  template <int kHeadDim>
  __device__ __forceinline__ void LoadQueries(const AttentionParams& p,
                                              Queries<kHeadDim>& q) const {
    const int64_t first_row = static_cast<int64_t>(tile) * kTileRows + WarpIndex() * kGroupRows;
    q.Load(p.q + first_row * p.q_stride + head * kHeadDim, p.q_stride);
  }
};

// The key blocks of a split, in a ring that the first thread of the block fills.
template <typename Ring>
class SplitKeys {
 public:
  // Key blocks [first, end) of a head, which has `key_blocks`.
  __device__ __forceinline__ SplitKeys(const Ring& ring, const uint16_t* head, int first, int end,
                                       int key_blocks)
      : reader_(ring),
        filler_(ring),
        head_(head),
        first_(first),
        end_(end),
        key_blocks_(key_blocks),
        next_(first) {}

  // Starts to copy the first key blocks. REQUIRES: all stages were released.
  __device__ __forceinline__ void Begin() {
    next_ = first_;
#pragma unroll 1
    for (int i = 0; i < Ring::kStages; ++i) FillNext();
  }
  // Waits for the copies that Begin started.
  __device__ __forceinline__ void Wait() {
#pragma unroll 1
    for (int i = first_; i < min(next_, end_); i += Ring::kKeyBlocks) Take();
  }

  // As those of RingReader.
  __device__ __forceinline__ int Take() { return reader_.Take(); }
  __device__ __forceinline__ void Release(int stage) {
    reader_.Release(stage);
    FillNext();
  }
  __device__ __forceinline__ uint32_t Address(int stage) const { return reader_.Address(stage); }

 private:
  __device__ __forceinline__ void FillNext() {
    if (next_ < end_ && threadIdx.x == 0) filler_.Fill(head_, next_, key_blocks_);
    next_ += Ring::kKeyBlocks;
  }

  RingReader<Ring> reader_;
  RingFiller<Ring> filler_;
  const uint16_t* const head_;
  const int first_;
  const int end_;
  const int key_blocks_;
  int next_;  // to be copied
};

// The sweeps of a split of `keys` keys, which `ring` brings. Called by all threads of a block.
template <int kHeadDim, typename Weights, typename Ring>
__device__ __forceinline__ void AttendToSplit(const Queries<kHeadDim>& q, int keys, bool in_use,
                                              Weights log_weights, SplitKeys<Ring>& ring,
                                              RowState<kHeadDim>& state) {
  WgmmaSweep<kHeadDim> sweep;
  sweep.template Take<Sweep::kPlain>(q, keys, log_weights, ring);
  bool plain[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    state.m[half] = 0;
    state.l[half] = SumOverLanes<4>(sweep.softmax.l[half]);
    plain[half] = IsPlainSum(state.l[half]);
  }
  if (__syncthreads_or(in_use && !(plain[0] && plain[1])) != 0) {
    sweep.softmax.Clear(plain);
    ring.Begin();
    sweep.template Take<Sweep::kShifted>(q, keys, log_weights, ring);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.m[half] = sweep.softmax.m[half];
      state.l[half] = SumOverLanes<4>(sweep.softmax.l[half]);
    }
  }
#pragma unroll
  for (int k = 0; k < WgmmaKeys<kHeadDim>::kColumns; ++k) state.o[k / 4][k % 4] = sweep.o[k];
}

// A split of the context. Returns whether the warp's rows are in use.
template <int kHeadDim, bool kWeighted>
__device__ __forceinline__ bool AttendToContext(const AttentionParams& p, const SplitTask& task,
                                                const Tile& uploaded, int kv_head,
                                                RowState<kHeadDim>& state) {
  using Ring = typename SplitShape<kHeadDim>::Ring;
  const Ring ring = {DynamicSmem()};
  const int rows = uploaded.context_rows;
  const int key_blocks = static_cast<int>(ContextKeyBlocks(rows));
  const int split_key_blocks = static_cast<int>(SplitKeyBlocks(rows));
  const int first = task.split * split_key_blocks;
  const int end = min(key_blocks, first + split_key_blocks);
  const int split_rows = min(rows, end * kKeyBlockKeys) - first * kKeyBlockKeys;
  if (threadIdx.x == 0) ring.Init(/*consumer_warpgroups=*/1);
  SplitKeys<Ring> keys(
      ring,
      uploaded.context + ContextKeyBlockAt(p.layer, kv_head, /*key_block=*/0,
                                           uploaded.context_capacity, p.shape.kv_heads, kHeadDim),
      first, end, key_blocks);
  const bool being_encoded = uploaded.first_row >= 0;
  if (!being_encoded) keys.Begin();
  GridDepWait();
  const int groups = LoadCg<int32_t>(&p.tiles[task.tile].groups);
  Queries<kHeadDim> q;
  task.LoadQueries(p, q);
  __syncthreads();
  if (groups == 0) {
    keys.Wait();  // a block must not end before
    return false;
  }
  if (being_encoded) keys.Begin();
  const bool in_use = WarpIndex() < groups;
  if constexpr (kWeighted) {
    if (uploaded.context_log_weights != nullptr) {
      const KeyLogWeights log_weights(uploaded, p.layer, kv_head, p.shape.kv_heads,
                                      first * kKeyBlockKeys, split_rows);
      AttendToSplit(q, split_rows, in_use, log_weights, keys, state);
      return in_use;
    }
  }
  AttendToSplit(q, split_rows, in_use, NoLogWeights(), keys, state);
  return in_use;
}

// Likewise, a split of the buffers.
template <int kHeadDim>
__device__ __forceinline__ bool AttendToBuffers(const AttentionParams& p, const SplitTask& task,
                                                const Tile& uploaded, int kv_head,
                                                RowState<kHeadDim>& state) {
  const auto split = static_cast<int>(task.split - ContextSplits(uploaded.context_rows));
  const bool exists = split < BufferSplits(uploaded.buffer_capacity);
  GridDepWait();
  const Tile tile = LoadCg<Tile>(p.tiles + task.tile);
  const int group = WarpIndex();
  if (group >= tile.groups || !exists) return false;
  Queries<kHeadDim> q;
  task.LoadQueries(p, q);
  const TileBuffers buffers(tile, p.shape, p.layer, kv_head);
  BufferStream<kHeadDim> stream(buffers, split, split + 1, group, /*memory=*/0);
  BufferSplit<kHeadDim, BufferStream<kHeadDim>>(tile, group, q)
      .Attend(buffers.positions, split, /*in_use=*/true, stream, state);
  return true;
}

// AttentionKernel with KvSplit::kSplit, by wgmma, with the same bits. Grid: x tiles, y heads, z
// splits. A block computes one split of one head of a tile's 64 rows: a warpgroup all keys of the
// context, or each warp the buffers of its own paths.
//
// Before GridDepWait the kernel reads fields of a tile that no kernel changes, and the first keys
// of a context that was complete before the tile was uploaded.
//
// -inf: scores of keys that are not there. The first key block of a split has a key, so the m of a
// shifted sweep is finite after it; before it, only zeros are scaled. A split of the buffers may
// have no positions: then its m stays -inf, and its l and o zero.
//
// kWeighted: as AttentionParams::weighted.
template <int kHeadDim, bool kWeighted>
__global__ void __launch_bounds__(kWarpgroupThreads, SplitShape<kHeadDim>::kBlocks)
    WgmmaSplitAttentionKernel(const __grid_constant__ AttentionParams p) {
  GridDepLaunch();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const SplitTask task;
  const Tile uploaded = LoadCg<Tile>(p.tiles + task.tile);
  const int kv_head = task.head / (p.shape.heads / p.shape.kv_heads);
  RowState<kHeadDim> state;
  const bool in_use = task.split < ContextSplits(uploaded.context_rows)
                          ? AttendToContext<kHeadDim, kWeighted>(p, task, uploaded, kv_head, state)
                          : AttendToBuffers(p, task, uploaded, kv_head, state);
  if (in_use) StoreState<kHeadDim>(p, task.tile, task.split, WarpIndex(), task.head, state);
#else
  GridDepWait();
#endif
}

template <int kHeadDim, bool kWeighted>
ErrorCode LaunchAs(const AttentionParams& params, Stream stream) {
  const LaunchShape shape = {
      .blocks_x = params.tile_count,
      .blocks_y = params.shape.heads,
      .blocks_z = params.num_splits,
      .threads = kWarpgroupThreads,
      .shared_bytes = SplitShape<kHeadDim>::kSharedBytes,
  };
  return Launch(&WgmmaSplitAttentionKernel<kHeadDim, kWeighted>, shape, stream, params);
}

template <int kHeadDim>
ErrorCode LaunchFor(const AttentionParams& params, Stream stream) {
  return params.weighted ? LaunchAs<kHeadDim, true>(params, stream)
                         : LaunchAs<kHeadDim, false>(params, stream);
}

}  // namespace

ErrorCode LoadWgmmaSplitAttentionKernels(int shared_bytes) {
  for (const auto kernel :
       {&WgmmaSplitAttentionKernel<32, false>, &WgmmaSplitAttentionKernel<32, true>,
        &WgmmaSplitAttentionKernel<64, false>, &WgmmaSplitAttentionKernel<64, true>}) {
    if (const ErrorCode error = LoadKernel(kernel, shared_bytes); error != 0) return error;
  }
  return 0;
}

ErrorCode LaunchWgmmaSplitAttention(const AttentionParams& params, Stream stream) {
  return params.shape.head_dim == 32 ? LaunchFor<32>(params, stream)
                                     : LaunchFor<64>(params, stream);
}

}  // namespace chorale::kernels::cuda
