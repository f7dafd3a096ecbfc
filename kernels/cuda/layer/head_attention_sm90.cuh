// Attention of a tile's rows to the context in LayersKernel.
#ifndef CHORALE_KERNELS_CUDA_LAYER_HEAD_ATTENTION_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_HEAD_ATTENTION_SM90_CUH_

#include "kernels/cuda/attention/key_log_weights.cuh"
#include "kernels/cuda/attention/shifted_softmax.cuh"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/layer/layers_units_sm90.cuh"
#include "kernels/cuda/layer/smem_layers_sm90.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace chorale::kernels::cuda {

// The attention of one head to the context, by a warpgroup. Weights: KeyLogWeights or NoLogWeights.
template <typename Weights>
class HeadAttention {
  static constexpr int kHeadDim = kLayersHeadDim;
  using Keys = WgmmaKeys<kHeadDim>;

 public:
  __device__ __forceinline__ HeadAttention(UnitReader& units, uint32_t queries, int context_rows,
                                           const Weights& log_weights)
      : units_(units), queries_(queries), rows_(context_rows), log_weights_(log_weights) {
    combined.Clear();
  }

  RowState<kHeadDim> combined;

  // Returns whether a row of this lane needs the shifted sweep in some split.
  __device__ __forceinline__ bool PlainSweep() {
    if (rows_ > 0) TakeAllKeys<Sweep::kPlain>();
    return (shifted_[0] | shifted_[1]) != 0;
  }
  // Computes all rows again.
  __device__ __forceinline__ void ShiftedSweep() {
    combined.Clear();
    const int splits = static_cast<int>(ContextSplits(rows_));
    for (uint32_t& row : shifted_) row <<= kMaxContextSplits - splits;
    if (rows_ > 0) TakeAllKeys<Sweep::kShifted>();
  }

 private:
  enum class Sweep : bool { kPlain, kShifted };

  template <Sweep kSweep>
  __device__ __forceinline__ void TakeAllKeys() {
    const int split_keys = static_cast<int>(SplitKeyBlocks(rows_)) * kKeyBlockKeys;
#pragma unroll
    for (int step = 0; step < kKeyBlockKeys / 16; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) weights_[step][word] = 0;
    }
    log_weights_.Fetch(rows_);
    BeginSplit<kSweep>();
    unit_ = units_.Take();
    WgmmaFence();
    Keys::MultiplyKeys(queries_, units_.Address(unit_), s_[0]);
    WgmmaCommit();
    WgmmaWait<0>();
    HoldOperands(s_[0]);
    int left_in_split = split_keys;
    bool adds = true;  // the last key block is not the first of its split
    bool first = true;
#pragma unroll 1
    for (int left = rows_; left > 0; left -= 2 * kKeyBlockKeys) {
      const bool begins_split = left_in_split == 0;
      if (begins_split) left_in_split = split_keys;
      AttendToKeyBlock<kSweep>(left, /*adds=*/!first, begins_split, s_[0], s_[1]);
      first = false;
      if (left <= kKeyBlockKeys) {
        adds = left_in_split != split_keys;
        break;
      }
      AttendToKeyBlock<kSweep>(left - kKeyBlockKeys, /*adds=*/left_in_split != split_keys,
                               /*begins_split=*/false, s_[1], s_[0]);
      left_in_split -= 2 * kKeyBlockKeys;
    }
    HoldOperands(o_);
    HoldOperands(weights_);
    WgmmaFence();
    Keys::MultiplyValuesAt(weights_, units_.Address(unit_), o_, adds);
    WgmmaCommit();
    WgmmaWait<0>();
    HoldOperands(o_);
    units_.Release(unit_);
    EndSplit<kSweep>(softmax_);
  }

  // The softmax of `scores`, of a key block with `valid` rows of the context: all 64 if there are
  // more. weights_ are of the key block before, and afterwards of this one; next_scores become
  // those of the key block after, and so do log_weights_. `adds`: the key block before was not the
  // first of its split.
  //
  // unit_ has the V of the key block before and the K of the one after. Before the first key block,
  // weights are zero, and in place of V is a K: o is not used, not even NaN, since the next product
  // does not add to it. After the last key block, scores are computed in vain.
  template <Sweep kSweep>
  __device__ __forceinline__ void AttendToKeyBlock(int valid, bool adds, bool begins_split,
                                                   typename Keys::Scores& scores,
                                                   typename Keys::Scores& next_scores) {
    HoldOperands(o_);
    HoldOperands(weights_);
    HoldOperands(next_scores);
    WgmmaFence();
    Keys::MultiplyValuesAt(weights_, units_.Address(unit_), o_, adds);
    Keys::MultiplyKeys(queries_, units_.Address(unit_) + kUnitBytes / 2, next_scores);
    WgmmaCommit();
    log_weights_.AddTo(scores);
    log_weights_.Fetch(valid - kKeyBlockKeys);  // arrives while the warp waits for the products
    if (valid < kKeyBlockKeys) Keys::Mask(scores, valid);
    const ShiftedSoftmax ended = softmax_;
    if (begins_split) BeginSplit<kSweep>();
    const bool raised = kSweep == Sweep::kShifted && softmax_.Shift(scores);
    softmax_.Exponentiate(scores);
    ComputeBeforeWait(softmax_.l[0] + softmax_.l[1]);
    const int next = units_.Take();  // while products are in flight
    WgmmaWait<0>();
    HoldOperands(o_);
    HoldOperands(scores);  // no operand of these products, but PackWeights must not begin earlier
    HoldOperands(next_scores);
    units_.Release(unit_);
    unit_ = next;
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
  __device__ __forceinline__ void BeginSplit() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      softmax_.l[half] = 0;
      if (kSweep == Sweep::kPlain) continue;
      const bool shifted = shifted_[half] >> (kMaxContextSplits - 1) != 0;
      shifted_[half] <<= 1;
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
        shifted_[half] = shifted_[half] << 1 | (IsPlainSum(l[half]) ? 0u : 1u);
        combined.m[half] = 0;
        combined.l[half] += l[half];
      }
#pragma unroll
      for (int k = 0; k < Keys::kColumns; ++k) combined.o[k / 4][k % 4] += o_[k];
    } else {
      RowState<kHeadDim> state;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        state.m[half] = softmax.m[half];
        state.l[half] = l[half];
      }
#pragma unroll
      for (int k = 0; k < Keys::kColumns; ++k) state.o[k / 4][k % 4] = o_[k];
      combined.Combine(state);
    }
  }

  UnitReader& units_;
  const uint32_t queries_;
  const int rows_;
  Weights log_weights_;
  int unit_ = 0;  // of the products of the next call of AttendToKeyBlock
  // Bits of splits in which the rows need the shifted sweep: the last split's is the lowest one. In
  // the shifted sweep, the next split's is the highest one.
  uint32_t shifted_[2] = {};
  static_assert(kMaxContextSplits == 32);
  ShiftedSoftmax softmax_ = {};
  typename Keys::Sums o_ = {};
  typename Keys::Scores s_[2] = {};
  typename Keys::Weights weights_ = {};
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_HEAD_ATTENTION_SM90_CUH_
