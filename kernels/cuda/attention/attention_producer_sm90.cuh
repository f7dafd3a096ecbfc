// What a block of WgmmaAttentionKernel attends to, and the thread that fills its ring.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_PRODUCER_SM90_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_PRODUCER_SM90_CUH_

#include "base/integer_math.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_wgmma_sm90.cuh"
#include "kernels/cuda/attention/buffer_split.cuh"
#include "kernels/cuda/attention/key_ring.cuh"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// What the two warpgroups of a block attend to. If they need the same keys, the ring has them once;
// else each has a half of the ring.
struct BlockTasks {
  RowsTask first;
  RowsTask second;
  bool same_keys;

  // May precede GridDepWait: reads only fields of tiles that no kernel changes.
  template <int kWarpgroups>
  __device__ __forceinline__ static BlockTasks Of(const AttentionParams& p) {
    const int tile = static_cast<int>(blockIdx.x) * kWarpgroups;
    const Tile first = LoadCg<Tile>(p.tiles + tile);
    if constexpr (kWarpgroups == 1) return {RowsTask(p, tile, first), {}, true};
    const Tile second = LoadCg<Tile>(p.tiles + min(tile + 1, p.tile_count - 1));
    return {RowsTask(p, tile, first), RowsTask(p, tile + 1, second),
            first.context == second.context};
  }
};

// Fills the ring: with the keys of the context, from before GridDepWait on if it is complete, and
// with the buffers; with all of them again for the shifted sweep. Called by one thread.
template <int kHeadDim, int kWarpgroups>
class AttentionProducer {
  using Ring = typename WgmmaAttentionShape<kHeadDim, kWarpgroups>::Ring;
  static constexpr int kHalf = Ring::kStages / kWarpgroups;

 public:
  __device__ __forceinline__ AttentionProducer(const AttentionParams& p, const BlockTasks& tasks,
                                               const Ring& ring)
      : p_(p),
        tasks_(tasks),
        ring_(ring),
        first_(ring, 0, tasks.same_keys ? Ring::kStages : kHalf),
        second_(ring, kHalf, kHalf) {}

  template <typename Vote>
  __device__ __forceinline__ void Run(Vote& vote) {
    const bool complete = IsComplete(tasks_.first) && IsComplete(tasks_.second);
    if (!complete) Wait();
    if (!all_idle_) FillKeys();
    if (!waited_) Wait();
    if (all_idle_) return;
    FillBuffers();
    if (!vote.Result()) return;
    FillKeys();
    FillBuffers();
  }

 private:
  __device__ __forceinline__ bool IsComplete(const RowsTask& task) const {
    return task.tile < 0 || LoadCg<int32_t>(&p_.tiles[task.tile].first_row) < 0;
  }
  __device__ __forceinline__ bool IsIdle(const RowsTask& task) const {
    return task.tile < 0 || LoadCg<int32_t>(&p_.tiles[task.tile].groups) == 0;
  }

  // If all rows are idle, nobody reads the ring. A block must not end while copies to its shared
  // memory are in flight.
  __device__ __forceinline__ void Wait() {
    waited_ = true;
    GridDepWait();
    all_idle_ = IsIdle(tasks_.first) && IsIdle(tasks_.second);
    if (!all_idle_) return;
    for (int stage = 0; stage < Ring::kStages; ++stage) {
      if ((filled_ >> stage & 1) != 0) MbarrierWait(ring_.Full(stage), 0);
    }
  }

  __device__ __forceinline__ int KvHead() const {
    return static_cast<int>(blockIdx.y) / (p_.shape.heads / p_.shape.kv_heads);
  }
  __device__ __forceinline__ const uint16_t* KeysOf(const RowsTask& task) const {
    return task.context + ContextKeyBlockAt(p_.layer, KvHead(), /*key_block=*/0,
                                            task.context_capacity, p_.shape.kv_heads,
                                            p_.shape.head_dim);
  }

  __device__ __forceinline__ void FillKeys() {
    const int of_first = tasks_.first.key_blocks();
    const int of_second = tasks_.same_keys ? 0 : tasks_.second.key_blocks();
    const int stages = tasks_.same_keys ? Ring::kStages : kHalf;
#pragma unroll 1
    for (int i = 0; i < max(of_first, of_second); i += Ring::kKeyBlocks) {
      if (!waited_ && i / Ring::kKeyBlocks == stages) {
        Wait();
        if (all_idle_) return;
      }
      if (i < of_first) {
        filled_ |= 1 << first_.place().stage();
        first_.Fill(KeysOf(tasks_.first), i, of_first);
      }
      if (i < of_second) {
        filled_ |= 1 << second_.place().stage();
        second_.Fill(KeysOf(tasks_.second), i, of_second);
      }
    }
  }

  __device__ __forceinline__ TileBuffers BuffersOf(const RowsTask& task) const {
    if (task.tile < 0) return {};
    return {LoadCg<Tile>(p_.tiles + task.tile), p_.shape, p_.layer, KvHead()};
  }

  // Each warpgroup has a half of the ring, even if they share the keys.
  __device__ __forceinline__ void FillBuffers() {
    RingFiller<Ring> first = first_;
    if (kWarpgroups > 1 && tasks_.same_keys) {
      first.place() = first_.place().Part(0, kHalf);
      second_.place() = first_.place().Part(kHalf, kHalf);
    }
    const TileBuffers of_first = BuffersOf(tasks_.first);
    const TileBuffers of_second = kWarpgroups > 1 ? BuffersOf(tasks_.second) : TileBuffers();
    BufferStages first_stages(of_first.positions, /*split=*/0);
    BufferStages second_stages(of_second.positions, /*split=*/0);
#pragma unroll 1
    while (!first_stages.done() || !second_stages.done()) {
      if (!first_stages.done()) FillStage(of_first, first_stages, first);
      if (!second_stages.done()) FillStage(of_second, second_stages, second_);
    }
    if (kWarpgroups > 1 && tasks_.same_keys) {
      first_.place().Join(first.place());
      first_.place().Join(second_.place());
    } else {
      first_.place() = first.place();
    }
  }

  __device__ __forceinline__ void FillStage(const TileBuffers& buffers, BufferStages& stages,
                                            RingFiller<Ring>& filler) {
    using Stage = BufferStage<kHeadDim>;
    filler.template Fill<Stage::kPositions, Stage::kPositionBytes>(
        buffers.row_bytes, [&](int position) {
          return buffers.At(stages.first_position() + position, stages.is_values());
        });
    stages.Advance();
  }

  const AttentionParams& p_;
  const BlockTasks& tasks_;
  const Ring ring_;
  RingFiller<Ring> first_;
  RingFiller<Ring> second_;
  int filled_ = 0;  // bits of stages
  bool waited_ = false;
  bool all_idle_ = false;
};

// Starts to bring the buffers of a task into L2, while it attends to the context. Called by a warp.
__device__ __forceinline__ void PrefetchBuffers(const AttentionParams& p, const RowsTask& task) {
  if (task.tile < 0) return;
  const Tile tile = LoadCg<Tile>(p.tiles + task.tile);
  if (tile.buffer == nullptr) return;
  const int kv_head = static_cast<int>(blockIdx.y) / (p.shape.heads / p.shape.kv_heads);
  const int positions = max(tile.visible_query, tile.visible_buffer);
  const int elements = 2 * tile.buffer_paths * p.shape.head_dim;  // of a position
  const uint16_t* const buffer =
      tile.buffer +
      p.layer * BufferLayerSize(tile.buffer_capacity, tile.buffer_paths, p.shape.kv_heads,
                                p.shape.head_dim) +
      BufferKeyAt(kv_head, 0, 0, tile.buffer_capacity, tile.buffer_paths, p.shape.head_dim);
  for (int i = LaneIndex(); i < positions; i += kWarpSize) {
    PrefetchL2(buffer + static_cast<int64_t>(i) * elements, elements * 2);
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_PRODUCER_SM90_CUH_
