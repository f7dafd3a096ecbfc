#include <initializer_list>

#include "base/integer_math.h"
#include "kernels/cuda/attention/attention_producer_sm90.cuh"
#include "kernels/cuda/attention/attention_wgmma_sm90.cuh"
#include "kernels/cuda/attention/attention_wgmma_sm90.h"
#include "kernels/cuda/attention/buffer_split.cuh"
#include "kernels/cuda/attention/key_ring.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

// A consumer warpgroup of a block. Called by all of its threads, after GridDepWait.
template <int kHeadDim, int kWarpgroups, bool kWeighted>
class AttentionConsumer {
  using Shape = WgmmaAttentionShape<kHeadDim, kWarpgroups>;
  using Ring = typename Shape::Ring;
  using Vote = typename Shape::Vote;
  using Keys = WgmmaKeys<kHeadDim>;
  static constexpr int kHalf = Ring::kStages / kWarpgroups;  // of the ring, in stages
  static constexpr int kQueryBarrier = 1;                    // and one for the second warpgroup
  static constexpr int kSweepBarrier = 3;

 public:
  __device__ __forceinline__ AttentionConsumer(const AttentionParams& p, const BlockTasks& tasks,
                                               int warpgroup)
      : p_(p),
        warpgroup_(warpgroup),
        shares_ring_(kWarpgroups > 1 && tasks.same_keys),
        task_(warpgroup == 0 ? tasks.first : tasks.second),
        other_(warpgroup == 0 ? tasks.second : tasks.first),
        tile_(LoadCg<Tile>(p.tiles + max(task_.tile, 0))),
        other_tile_(LoadCg<Tile>(p.tiles + max(other_.tile, 0))) {}

  __device__ __forceinline__ void Run(const Ring& ring, Vote& vote) const {
    CopyQueries();
    const bool idle = task_.tile < 0 || tile_.groups == 0;
    if (idle && (other_.tile < 0 || other_tile_.groups == 0)) return;
    RingReader<Ring> keys(ring, shares_ring_ ? 0 : Half(), shares_ring_ ? Ring::kStages : kHalf,
                          shares_ring_ ? 1 : kWarpgroups);
    if (idle) return Drain(keys, vote);
    if constexpr (kWeighted) {
      if (tile_.context_log_weights != nullptr) {
        const int kv_head = static_cast<int>(blockIdx.y) / (p_.shape.heads / p_.shape.kv_heads);
        return Attend(KeyLogWeights(tile_, p_.layer, kv_head, p_.shape.kv_heads), keys, vote);
      }
    }
    Attend(NoLogWeights(), keys, vote);
  }

 private:
  template <typename Weights>
  __device__ __forceinline__ void Attend(const Weights& log_weights, const RingReader<Ring>& keys,
                                         Vote& vote) const {
    const bool in_use = WarpIndex() % kWarpgroupWarps < tile_.groups;
    WgmmaAttentionRows<kHeadDim, kWarpgroups, Weights> rows(p_, task_, log_weights, in_use,
                                                            warpgroup_, keys);
    vote.Vote(rows.PlainSweep());
    const int positions = BuffersOf(task_, tile_).positions;
    if (vote.Result()) {
      SkipBuffers(rows.keys());
      rows.ShiftedSweep();
    }
    if (positions > 0) AttendToBuffers(positions, rows);
    rows.Store();
  }

  __device__ __forceinline__ int Half() const { return warpgroup_ * kHalf; }

  __device__ __forceinline__ void CopyQueries() const {
    Keys::CopyQueries(p_.q + static_cast<int64_t>(max(task_.tile, 0)) * kTileRows * p_.q_stride +
                          static_cast<int>(blockIdx.y) * kHeadDim,
                      p_.q_stride,
                      reinterpret_cast<uint16_t*>(DynamicSmem() + Shape::kQueriesAt +
                                                  warpgroup_ * Keys::kQueryBytes));
    FenceProxyAsync();
    NamedBarrierSync<kWarpgroupThreads>(kQueryBarrier + warpgroup_);
  }

  __device__ __forceinline__ TileBuffers BuffersOf(const RowsTask& task, const Tile& tile) const {
    return task.tile < 0 ? TileBuffers() : TileBuffers(tile, p_.shape, p_.layer, /*kv_head=*/0);
  }

  // The buffers of each warpgroup come in its half of the ring, even if the two share the keys.
  template <typename Rows>
  __device__ __forceinline__ void AttendToBuffers(int positions, Rows& rows) const {
    if (!shares_ring_) return rows.AttendToBuffers(tile_, positions, rows.keys());
    RingReader<Ring> half = rows.keys().Part(Half(), kHalf, kWarpgroups);
    rows.AttendToBuffers(tile_, positions, half);
  }

  // Before the shifted sweep, after which the ring has the buffers again.
  __device__ __forceinline__ void SkipBuffers(RingReader<Ring>& keys) const {
    const int stages = BuffersOf(task_, tile_).stages();
    if (!shares_ring_) {
      for (int i = 0; i < stages; ++i) keys.Release(keys.Take());
      return;
    }
    RingReader<Ring> half = keys.Part(Half(), kHalf, kWarpgroups);
    for (int i = 0; i < stages; ++i) half.Release(half.Take());
    keys.place().Join(half.place());
    // Only the parity of a stage is observable, so the other must have taken its own. bar.sync
    // needs whole warps, and lanes may leave the wait for a stage one by one.
    __syncwarp();
    NamedBarrierSync<Shape::kConsumers>(kSweepBarrier);
    RingPlace other_half = keys.place().Part(kHalf - Half(), kHalf);
    for (int i = BuffersOf(other_, other_tile_).stages(); i > 0; --i) other_half.Advance();
    keys.place().Join(other_half);
  }

  // Without rows. A ring that is shared has the keys of the other warpgroup.
  __device__ __forceinline__ void Drain(RingReader<Ring>& keys, Vote& vote) const {
    const int count = task_.tile >= 0 ? task_.context_rows : shares_ring_ ? other_.context_rows : 0;
    keys.Drain(count);
    vote.Vote(false);
    if (!vote.Result()) return;
    SkipBuffers(keys);
    keys.Drain(count);
  }

  const AttentionParams& p_;
  const int warpgroup_;
  const bool shares_ring_;
  const RowsTask task_;
  const RowsTask other_;
  const Tile tile_;
  const Tile other_tile_;
};

// AttentionKernel with KvSplit::kSingle, by wgmma, with the same bits. Grid: x tiles, kWarpgroups
// together; y heads. A consumer warpgroup computes one head of one tile, all splits. A producer
// thread copies keys and values, of the context and of the buffers, to a ring in shared
// memory.
//
// Before GridDepWait the kernel reads fields of a tile that no kernel changes, and keys of a
// context that was complete before the tile was uploaded.
//
// -inf: scores of keys that are not there. Every split of a context has a key; before the first one
// of a shifted sweep, only zeros are scaled. A row may have no position of the buffer: see
// BufferSplit.
//
// kWeighted: as AttentionParams::weighted.
template <int kHeadDim, int kWarpgroups, bool kWeighted>
__global__ void __launch_bounds__(WgmmaAttentionShape<kHeadDim, kWarpgroups>::kThreads,
                                  WgmmaAttentionShape<kHeadDim, kWarpgroups>::kBlocks)
    WgmmaAttentionKernel(const __grid_constant__ AttentionParams p) {
  GridDepLaunch();
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = WgmmaAttentionShape<kHeadDim, kWarpgroups>;
  const typename Shape::Ring ring = {DynamicSmem()};
  auto& vote = *reinterpret_cast<typename Shape::Vote*>(DynamicSmem() + Shape::kVoteAt);
  if (threadIdx.x == 0) {
    ring.Init(kWarpgroups);
    vote.Init();
  }
  const BlockTasks tasks = BlockTasks::Of<kWarpgroups>(p);
  __syncthreads();
  if (threadIdx.x >= Shape::kConsumers) {
    RegDealloc<Shape::kProducerRegisters>();
    const int warp = WarpIndex() - Shape::kConsumers / kWarpSize;
    if (threadIdx.x == Shape::kConsumers) {
      AttentionProducer<kHeadDim, kWarpgroups>(p, tasks, ring).Run(vote);
    } else {
      GridDepWait();
      if (warp == 1) PrefetchBuffers(p, tasks.first);
      if (warp == 2) PrefetchBuffers(p, tasks.second);
    }
    return;
  }
  RegAlloc<Shape::kConsumerRegisters>();
  GridDepWait();
  const int warpgroup = kWarpgroups == 1 ? 0 : WarpgroupIndex();
  AttentionConsumer<kHeadDim, kWarpgroups, kWeighted>(p, tasks, warpgroup).Run(ring, vote);
#else
  GridDepWait();
#endif
}

template <int kHeadDim, int kWarpgroups, bool kWeighted>
ErrorCode LaunchAs(const AttentionParams& params, Stream stream) {
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(params.tile_count, kWarpgroups)),
      .blocks_y = params.shape.heads,
      .threads = WgmmaAttentionShape<kHeadDim, kWarpgroups>::kThreads,
      .shared_bytes = WgmmaAttentionShape<kHeadDim, kWarpgroups>::kSharedBytes,
  };
  return Launch(&WgmmaAttentionKernel<kHeadDim, kWarpgroups, kWeighted>, shape, stream, params);
}

// Two tiles share a block if they would else share a multiprocessor.
template <int kHeadDim, bool kWeighted>
ErrorCode LaunchFor(const AttentionParams& params, Stream stream) {
  const int64_t rows_of_heads = int64_t{params.tile_count} * params.shape.heads;
  return rows_of_heads > params.multiprocessors ? LaunchAs<kHeadDim, 2, kWeighted>(params, stream)
                                                : LaunchAs<kHeadDim, 1, kWeighted>(params, stream);
}

template <bool kWeighted>
ErrorCode LaunchForHeads(const AttentionParams& params, Stream stream) {
  return params.shape.head_dim == 32 ? LaunchFor<32, kWeighted>(params, stream)
                                     : LaunchFor<64, kWeighted>(params, stream);
}

template <bool kWeighted>
ErrorCode LoadKernels(int shared_bytes) {
  for (const auto kernel :
       {&WgmmaAttentionKernel<32, 1, kWeighted>, &WgmmaAttentionKernel<32, 2, kWeighted>,
        &WgmmaAttentionKernel<64, 1, kWeighted>, &WgmmaAttentionKernel<64, 2, kWeighted>}) {
    if (const ErrorCode error = LoadKernel(kernel, shared_bytes); error != 0) return error;
  }
  return 0;
}

}  // namespace

ErrorCode LoadWgmmaAttentionKernels(int shared_bytes) {
  const ErrorCode error = LoadKernels<false>(shared_bytes);
  return error != 0 ? error : LoadKernels<true>(shared_bytes);
}

ErrorCode LaunchWgmmaAttention(const AttentionParams& params, Stream stream) {
  return params.weighted ? LaunchForHeads<true>(params, stream)
                         : LaunchForHeads<false>(params, stream);
}

}  // namespace chorale::kernels::cuda
