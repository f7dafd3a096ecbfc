// The rows of one tile in WgmmaAttentionKernel: a warpgroup of consumers.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_SM90_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_SM90_CUH_

#include "base/integer_math.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/buffer_split.cuh"
#include "kernels/cuda/attention/key_log_weights.cuh"
#include "kernels/cuda/attention/key_ring.cuh"
#include "kernels/cuda/attention/shifted_softmax.cuh"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/attention/store_attention.cuh"
#include "kernels/cuda/attention/sweep_vote.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace chorale::kernels::cuda {

// Sizes of a block of WgmmaAttentionKernel with kWarpgroups consumer warpgroups.
template <int kHeadDim, int kWarpgroups>
struct WgmmaAttentionShape {
  static constexpr int kStages =
      kHeadDim == 64 || kWarpgroups == 1 ? 3 : 4;  // for each consumer warpgroup
  using Ring = KeyRing<kHeadDim, /*kStageKeyBlocks=*/2, kStages * kWarpgroups,
                       BufferStage<kHeadDim>::kBytes>;
  using Vote = SweepVote<kWarpgroups * kWarpgroupWarps>;
  static constexpr int kConsumers = kWarpgroups * kWarpgroupThreads;
  // And a warpgroup of which the first thread is the producer.
  static constexpr int kThreads = kConsumers + kWarpgroupThreads;
  static constexpr int kBlocks = kWarpgroups == 1 ? 2 : 1;  // of a multiprocessor, at least
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = kWarpgroups == 1 ? 216 : 232;

  // Shared memory: the ring, each tile's queries, and the vote.
  static constexpr int kQueriesAt = static_cast<int>(RoundUp(Ring::kBytes, 1024));
  static constexpr int kVoteAt = kQueriesAt + kWarpgroups * WgmmaKeys<kHeadDim>::kQueryBytes;
  static constexpr int kSharedBytes = kVoteAt + static_cast<int>(sizeof(Vote));
};

// What a warpgroup computes: one head of a tile's rows.
struct RowsTask {
  int tile = -1;  // -1: nothing
  const uint16_t* context = nullptr;
  int context_rows = 0;
  int context_capacity = 0;

  RowsTask() = default;
  __device__ __forceinline__ RowsTask(const AttentionParams& p, int index, const Tile& uploaded) {
    if (index >= p.tile_count) return;
    tile = index;
    context = uploaded.context;
    context_rows = uploaded.context_rows;
    context_capacity = uploaded.context_capacity;
  }

  __device__ __forceinline__ int key_blocks() const {
    return static_cast<int>(ContextKeyBlocks(context_rows));
  }
};

// Called by all warps of a consumer warpgroup that has a task. As in EncodeRows, scores are
// computed one key block ahead, during the softmax of a key block two products are in flight, and
// a second sweep is for rows whose scores are far from zero.
//
// Each KV split has a state of its own, of which l decides whether the row needs the shifted sweep
// in that split. The o of a split is complete only during the first key block of the next one.
//
// Weights: KeyLogWeights or NoLogWeights.
template <int kHeadDim, int kWarpgroups, typename Weights>
class WgmmaAttentionRows {
  using Shape = WgmmaAttentionShape<kHeadDim, kWarpgroups>;
  using Ring = typename Shape::Ring;
  using Keys = WgmmaKeys<kHeadDim>;
  static_assert(kMaxContextSplits <= 32);

 public:
  // The q of the task's rows are in shared memory. `log_weights`: of all keys.
  __device__ __forceinline__ WgmmaAttentionRows(const AttentionParams& p, const RowsTask& task,
                                                const Weights& log_weights, bool in_use,
                                                int warpgroup, const RingReader<Ring>& keys)
      : p_(p),
        task_(task),
        log_weights_(log_weights),
        in_use_(in_use),
        queries_(SmemAddress(DynamicSmem()) + Shape::kQueriesAt + warpgroup * Keys::kQueryBytes),
        ring_(SmemAddress(DynamicSmem())),
        keys_(keys) {
    combined_.Clear();
  }

  // Returns whether a row of this lane needs the shifted sweep in some split.
  __device__ __forceinline__ bool PlainSweep() {
    if (task_.key_blocks() > 0) TakeAllKeys<Sweep::kPlain>();
    return in_use_ && (shifted_[0] | shifted_[1]) != 0;
  }

  // Computes all rows again.
  __device__ __forceinline__ void ShiftedSweep() {
    combined_.Clear();
    if (task_.key_blocks() > 0) TakeAllKeys<Sweep::kShifted>();
  }

  // Attends to `positions` positions of the buffers, which `ring` has after the keys.
  __device__ __forceinline__ void AttendToBuffers(const Tile& tile, int positions,
                                                  RingReader<Ring>& ring) {
    const int group = WarpIndex() % kWarpgroupWarps;
    Queries<kHeadDim> q;
    q.LoadShared(queries_, group);
    const BufferSplit<kHeadDim, RingReader<Ring>> buffers(tile, group, q);
    RowState<kHeadDim> of_buffers;
    of_buffers.Clear();
#pragma unroll 1
    for (int split = 0; split < kMaxBufferSplits; ++split) {
      RowState<kHeadDim> state;
      buffers.Attend(positions, split, in_use_, ring, state);
      of_buffers.Combine(state);
    }
    combined_.Combine(of_buffers);
  }

  __device__ __forceinline__ void Store() const {
    if (!in_use_) return;
    const int head = static_cast<int>(blockIdx.y);
    const int group = WarpIndex() % kWarpgroupWarps;
    if (p_.attended != nullptr) {
      StoreAttended<kHeadDim>(p_, task_.tile, group, head, combined_);
    } else {
      StoreState<kHeadDim>(p_, task_.tile, /*split=*/0, group, head, combined_);
    }
  }

  __device__ __forceinline__ RingReader<Ring>& keys() { return keys_; }

 private:
  enum class Sweep : bool { kPlain, kShifted };

  template <Sweep kSweep>
  __device__ __forceinline__ void TakeAllKeys() {
    // The keys of a split: an even number of key blocks.
    const int split_keys = static_cast<int>(SplitKeyBlocks(task_.context_rows)) * kKeyBlockKeys;
    int stage = keys_.Take();
    int previous = stage;  // none before the first: weights_ are zero, and any values do
#pragma unroll
    for (int step = 0; step < kKeyBlockKeys / 16; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) weights_[step][word] = 0;
    }
    log_weights_.Fetch(task_.context_rows);
    split_ = 0;
    BeginSplit<kSweep>(0);
    WgmmaFence();
    Keys::MultiplyKeys(queries_, KeyBlock(stage, 0), s_[0]);
    WgmmaCommit();
    WgmmaWait<0>();
    HoldOperands(s_[0]);
    int left_in_split = split_keys;
#pragma unroll 1
    for (int left = task_.context_rows; left > 0; left -= Ring::kKeys) {
      const bool begins_split = left_in_split == 0;
      if (begins_split) left_in_split = split_keys;
      AttendToKeyBlock<kSweep>(left, KeyBlock(previous, 1), KeyBlock(stage, 1),
                               /*adds=*/previous != stage, begins_split, s_[0], s_[1]);
      if (previous != stage) keys_.Release(previous);
      // After the last stage there is none: the scores of some key block are computed in vain.
      const int next = left > Ring::kKeys ? keys_.Take() : stage;
      AttendToKeyBlock<kSweep>(left - kKeyBlockKeys, KeyBlock(stage, 0), KeyBlock(next, 0),
                               /*adds=*/left_in_split != split_keys, /*begins_split=*/false, s_[1],
                               s_[0]);
      left_in_split -= Ring::kKeys;
      previous = stage;
      stage = next;
    }
    HoldOperands(o_);
    HoldOperands(weights_);
    WgmmaFence();
    Keys::MultiplyValues(weights_, KeyBlock(previous, 1), o_);
    WgmmaCommit();
    WgmmaWait<0>();
    HoldOperands(o_);
    keys_.Release(previous);
    EndSplit<kSweep>(softmax_);
  }

  // The softmax of `scores`, of a key block with `valid` rows of the context: all 64 if there are
  // more, none if there are less than 1. weights_ are of the key block `before`, and afterwards of
  // this one; next_scores become those of the key block `after`, and so do log_weights_. `adds`:
  // the key block before was not the first of its split.
  template <Sweep kSweep>
  __device__ __forceinline__ void AttendToKeyBlock(int valid, uint32_t before, uint32_t after,
                                                   bool adds, bool begins_split,
                                                   typename Keys::Scores& scores,
                                                   typename Keys::Scores& next_scores) {
    HoldOperands(o_);
    HoldOperands(weights_);
    HoldOperands(next_scores);
    WgmmaFence();
    Keys::MultiplyValues(weights_, before, o_, adds);
    Keys::MultiplyKeys(queries_, after, next_scores);
    WgmmaCommit();
    log_weights_.AddTo(scores);
    log_weights_.Fetch(valid - kKeyBlockKeys);  // arrives while the warp waits for the products
    if (valid < kKeyBlockKeys) Keys::Mask(scores, valid);
    const ShiftedSoftmax ended = softmax_;
    if (begins_split) BeginSplit<kSweep>(split_ + 1);
    const bool raised = kSweep == Sweep::kShifted && softmax_.Shift(scores);
    softmax_.Exponentiate(scores);
    ComputeBeforeWait(softmax_.l[0] + softmax_.l[1]);
    WgmmaWait<0>();
    HoldOperands(o_);
    HoldOperands(scores);  // no operand of these products, but PackWeights must not begin earlier
    HoldOperands(next_scores);
    if (begins_split) {
      EndSplit<kSweep>(ended);
    } else if (raised) {
#pragma unroll
      for (int k = 0; k < Keys::kColumns; ++k) o_[k] *= softmax_.scale[k % 4 / 2];
    }
    Keys::PackWeights(scores, weights_);
  }

  // In the shifted sweep, m is raised for rows that need it in this split, and else stays 0.
  template <Sweep kSweep>
  __device__ __forceinline__ void BeginSplit(int split) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      softmax_.l[half] = 0;
      if (kSweep == Sweep::kPlain) continue;
      const bool shifted = (shifted_[half] >> split & 1) != 0;
      softmax_.m[half] = shifted ? -INFINITY : 0.0f;
      softmax_.limit[half] = shifted ? -INFINITY : INFINITY;
    }
  }

  // Combines a split, whose o is o_.
  template <Sweep kSweep>
  __device__ __forceinline__ void EndSplit(const ShiftedSoftmax& softmax) {
    float l[2] = {softmax.l[0], softmax.l[1]};
    SumOverLanes<4>(l);
    if constexpr (kSweep == Sweep::kPlain) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!IsPlainSum(l[half])) shifted_[half] |= uint32_t{1} << split_;
        combined_.m[half] = 0;
        combined_.l[half] += l[half];
      }
#pragma unroll
      for (int k = 0; k < Keys::kColumns; ++k) combined_.o[k / 4][k % 4] += o_[k];
    } else {
      RowState<kHeadDim> state;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        state.m[half] = softmax.m[half];
        state.l[half] = l[half];
      }
#pragma unroll
      for (int k = 0; k < Keys::kColumns; ++k) state.o[k / 4][k % 4] = o_[k];
      combined_.Combine(state);
    }
    ++split_;
  }

  // Address of the i-th key block of a stage.
  __device__ __forceinline__ uint32_t KeyBlock(int stage, int i) const {
    return ring_ + stage * Ring::kStageBytes + i * Ring::kKeyBlockBytes;
  }

  const AttentionParams& p_;
  const RowsTask task_;
  Weights log_weights_;
  const bool in_use_;
  const uint32_t queries_;  // address
  const uint32_t ring_;     // likewise
  RingReader<Ring> keys_;
  int split_ = 0;
  uint32_t shifted_[2] = {};  // bits of splits in which the rows need the shifted sweep

  RowState<kHeadDim> combined_;
  ShiftedSoftmax softmax_ = {};
  typename Keys::Sums o_ = {};
  typename Keys::Scores s_[2] = {};
  typename Keys::Weights weights_ = {};
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_SM90_CUH_
