// A sweep of 64 rows over keys by wgmma (compute capability 9.0), software-pipelined.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_WGMMA_SWEEP_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_WGMMA_SWEEP_CUH_

#include "kernels/cuda/attention/key_log_weights.cuh"
#include "kernels/cuda/attention/shifted_softmax.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace chorale::kernels::cuda {

// In the plain sweep a row's weights are 2^score: without its maximum, a softmax takes little more
// than half of the instructions. Unless their sum is then a plain one (IsPlainSum), the row needs
// another sweep, in which weights are 2^(score - m): the shifted one.
enum class Sweep : bool { kPlain, kShifted };

// Computes the softmax and o of a warpgroup's rows over keys that come in a ring, two key blocks a
// stage. Scores are computed one key block ahead. While the softmax of a key block is computed, two
// products are in flight:
//
//   o += weights V       of the key block before
//   scores = q K         of the key block after
//
// so tensor cores also work while a warpgroup computes its softmax, whatever the others do.
//
// Called by all threads of the warpgroup. softmax.l stays each lane's share.
template <int kHeadDim>
struct WgmmaSweep {
  using Keys = WgmmaKeys<kHeadDim>;
  using Scores = typename Keys::Scores;

  ShiftedSoftmax softmax = {};  // of the plain sweep, l alone
  typename Keys::Sums o = {};

  // Takes the stages of `keys` keys. `queries`: an argument of Keys::MultiplyKeys. `log_weights`:
  // of these keys, KeyLogWeights or NoLogWeights. REQUIRES: for the shifted sweep, softmax.m and
  // limit were set. `keys` > 0.
  template <Sweep kSweep, typename Q, typename Weights, typename Reader>
  __device__ __forceinline__ void Take(const Q& queries, int keys, Weights& log_weights,
                                       Reader& ring) {
    constexpr int kStageKeys = 2 * kKeyBlockKeys;
    Clear();
    if constexpr (kSweep == Sweep::kPlain) log_weights.Fetch(keys);
    int stage = ring.Take();
    int previous = stage;  // none before the first: weights_ are zero, and any values do
    WgmmaFence();
    Keys::MultiplyKeys(queries, KeyBlock(ring, stage, 0), s_[0]);
    WgmmaCommit();
    WgmmaWait<0>();
    HoldOperands(s_[0]);
#pragma unroll 1
    for (int left = keys; left > 0; left -= kStageKeys) {
      AttendToKeyBlock<kSweep>(queries, left, log_weights, KeyBlock(ring, previous, 1),
                               KeyBlock(ring, stage, 1), s_[0], s_[1]);
      if (previous != stage) ring.Release(previous);
      // After the last stage there is none: the scores of some key block are computed in vain.
      const int next = left > kStageKeys ? ring.Take() : stage;
      AttendToKeyBlock<kSweep>(queries, left - kKeyBlockKeys, log_weights, KeyBlock(ring, stage, 0),
                               KeyBlock(ring, next, 0), s_[1], s_[0]);
      previous = stage;
      stage = next;
    }
    HoldOperands(o);
    HoldOperands(weights_);
    WgmmaFence();
    Keys::MultiplyValues(weights_, KeyBlock(ring, previous, 1), o);
    WgmmaCommit();
    WgmmaWait<0>();
    HoldOperands(o);
    ring.Release(previous);
  }

 private:
  __device__ __forceinline__ void Clear() {
    softmax.l[0] = softmax.l[1] = 0;
#pragma unroll
    for (float& x : o) x = 0;
#pragma unroll
    for (int step = 0; step < kKeyBlockKeys / 16; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) weights_[step][word] = 0;
    }
  }

  // The softmax of `scores`, of a key block with `valid` rows of the context: all 64 if there are
  // more, none if there are less than 1. weights_ are of the key block `before`, and afterwards of
  // this one; next_scores become those of the key block `after`, and so do log_weights.
  //
  // HoldOperands names registers of the products: before WgmmaFence those that were accessed since
  // the last products, after WgmmaWait those that will be. Weights are packed only then: while any
  // product is in flight, packing makes ptxas serialize them all (its warning C7513).
  template <Sweep kSweep, typename Q, typename Weights>
  __device__ __forceinline__ void AttendToKeyBlock(const Q& queries, int valid,
                                                   Weights& log_weights, uint32_t before,
                                                   uint32_t after, Scores& scores,
                                                   Scores& next_scores) {
    HoldOperands(o);
    HoldOperands(weights_);
    HoldOperands(next_scores);
    WgmmaFence();
    Keys::MultiplyValues(weights_, before, o);
    Keys::MultiplyKeys(queries, after, next_scores);
    WgmmaCommit();
    if constexpr (kSweep == Sweep::kPlain) {
      log_weights.AddTo(scores);
      log_weights.Fetch(valid - kKeyBlockKeys);  // arrives while the warp waits for the products
    } else {
      log_weights.LoadAndAdd(valid, /*first=*/0, scores);
    }
    if (valid < kKeyBlockKeys) Keys::Mask(scores, valid);
    const bool raised = kSweep == Sweep::kShifted && softmax.Shift(scores);
    softmax.Exponentiate(scores);
    ComputeBeforeWait(softmax.l[0] + softmax.l[1]);
    WgmmaWait<0>();
    HoldOperands(o);
    HoldOperands(scores);  // no operand of these products, but PackWeights must not begin earlier
    HoldOperands(next_scores);
    if (raised) {
#pragma unroll
      for (int i = 0; i < Keys::kColumns; ++i) o[i] *= softmax.scale[i % 4 / 2];
    }
    Keys::PackWeights(scores, weights_);
  }

  // Address of the i-th key block of a stage.
  template <typename Reader>
  __device__ __forceinline__ static uint32_t KeyBlock(const Reader& ring, int stage, int i) {
    return ring.Address(stage) + i * Keys::kKeyBlockBytes;
  }

  Scores s_[2] = {};  // scores of a stage's two key blocks, then their exponentials
  typename Keys::Weights weights_ = {};
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_WGMMA_SWEEP_CUH_
