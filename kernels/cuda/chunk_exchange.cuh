// Attention of a group's head by several warps, which take the chunks of the context in turn: their
// softmax states meet in shared memory, and are merged in the order of the chunks.
#ifndef CHORALE_KERNELS_CUDA_CHUNK_EXCHANGE_CUH_
#define CHORALE_KERNELS_CUDA_CHUNK_EXCHANGE_CUH_

#include "kernels/cuda/attention_state.cuh"
#include "kernels/cuda/chunk_state.cuh"
#include "kernels/cuda/decode_layout.h"
#include "kernels/cuda/device.cuh"

namespace chorale::kernels::cuda {

// A thread's view of it. Each thread merges a few runs of 4 columns of a row, whose sums it keeps
// in registers; the order of its sums is that of Rows::MergeChunks.
template <int kHeadDim>
class ChunkExchange {
  static constexpr int kStride = ExchangeStride(kHeadDim);
  static constexpr int kStateFloats = kGroupRows * kStride;
  static constexpr int kRuns = kGroupRows * kHeadDim / 4;  // of a group's head
  // Of a thread, when the fewest warps share them.
  static constexpr int kOwnRuns = kRuns / (2 * kWarp);

 public:
  // `memory`: of the team's `lanes` warps, at least 2, of which this is number `lane`. `barrier`:
  // the team's own.
  __device__ __forceinline__ ChunkExchange(float* memory, int lanes, int lane, int barrier)
      : memory_(memory), lanes_(lanes), lane_(lane), barrier_(barrier) {
#pragma unroll
    for (int i = 0; i < kOwnRuns; ++i) {
      m_[i] = -INFINITY;
      l_[i] = 0;
      o_[i] = {};
    }
  }

  // For all warps of the team: the states of `chunks` neighbouring chunks, of which each warp below
  // that number has one. REQUIRES: FinishChunk was called on it.
  __device__ __forceinline__ void Merge(const RowState<kHeadDim>& state, int chunks) {
    if (lane_ < chunks) Leave(state);
    Sync();
#pragma unroll
    for (int i = 0; i < kOwnRuns; ++i) {
      const int run = RunAt(i);
      if (run >= kRuns) break;
      const float* row = memory_ + run / (kHeadDim / 4) * kStride;
#pragma unroll 1
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const Floats2 ml = LoadAs<Floats2>(row + chunk * kStateFloats + kHeadDim);
        const Floats4 o = LoadAs<Floats4>(row + chunk * kStateFloats + run % (kHeadDim / 4) * 4);
        const MergeScale scale = MergeMaximum(m_[i], ml.v[0]);
        l_[i] = MergeSum(l_[i], ml.v[1], scale);
#pragma unroll
        for (int k = 0; k < 4; ++k) o_[i].v[k] = MergeSum(o_[i].v[k], o.v[k], scale);
      }
    }
    Sync();  // so that the next states may be left
  }

  // store(row, column, attention): of columns `column` to column + 3 of the head, of a row of the
  // group.
  template <typename Store>
  __device__ __forceinline__ void Finish(const Store& store) {
#pragma unroll
    for (int i = 0; i < kOwnRuns; ++i) {
      const int run = RunAt(i);
      if (run >= kRuns) break;
      const float divisor = l_[i] > 0 ? Reciprocal(l_[i]) : 0.0f;  // no key at all: attention is 0
#pragma unroll
      for (int k = 0; k < 4; ++k) o_[i].v[k] *= divisor;
      store(run / (kHeadDim / 4), run % (kHeadDim / 4) * 4, o_[i]);
    }
  }

 private:
  __device__ __forceinline__ void Sync() const { SyncThreads(barrier_, lanes_ * kWarp); }

  __device__ __forceinline__ int RunAt(int i) const {
    return (i * lanes_ + lane_) * kWarp + ThreadIndex() % kWarp;
  }

  __device__ __forceinline__ void Leave(const RowState<kHeadDim>& state) {
    const int lane = ThreadIndex() % kWarp;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* row = memory_ + lane_ * kStateFloats + (half * 8 + lane / 4) * kStride;
#pragma unroll
      for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
        StoreAs<Floats2>(row + 8 * n + lane % 4 * 2,
                         {state.o[n][2 * half], state.o[n][2 * half + 1]});
      }
      if (lane % 4 == 0) StoreAs<Floats2>(row + kHeadDim, {state.m[half], state.l[half]});
    }
  }

  float* const memory_;
  const int lanes_;
  const int lane_;
  const int barrier_;
  float m_[kOwnRuns];
  float l_[kOwnRuns];
  Floats4 o_[kOwnRuns];
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_CHUNK_EXCHANGE_CUH_
