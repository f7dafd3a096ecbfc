// The candidates with the largest priorities of those that the threads of a block have.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_LARGEST_PRIORITIES_CUH_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_LARGEST_PRIORITIES_CUH_

#include <cstdint>
#include <cstring>

#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/memory_set/spread_keys.h"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// SpreadCandidate::priority of w max(d^2, 1e-30) * factor: one more than the bits of this number,
// which have its order because it is not negative. NaN, which has no order, counts as 0.
__device__ __forceinline__ uint64_t CandidatePriority(double weight, float square, double factor) {
  constexpr double kLeastSquare = 1e-30;
  double value = weight * fmax(static_cast<double>(square), kLeastSquare);
  if (!(value > 0)) value = 0;
  const double priority = value * factor;
  uint64_t bits;
  memcpy(&bits, &priority, sizeof(bits));
  return bits + 1;
}

// Selects kCentresAtOnce candidates of a block of kThreads threads: each warp selects those of its
// lanes, then all threads those of all warps. To select is to count, for each candidate, those that
// come before it: of larger priority, or of equal priority and earlier. All threads of a block call
// the methods together.
template <int kThreads>
class LargestPriorities {
  static constexpr int kMost = static_cast<int>(kCentresAtOnce);
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kParts = kThreads / (kWarps * kMost);  // lanes that share a candidate

 public:
  struct Shared {
    SpreadCandidate of_warps[kWarps * kMost];  // the largest of each warp, in their order
    SpreadCandidate selected[kMost];
    uint64_t offered[kThreads];
  };

  __device__ __forceinline__ explicit LargestPriorities(Shared& shared)
      : shared_(shared),
        of_warp_(shared.of_warps + WarpIndex() * kMost),
        offered_(shared.offered + WarpIndex() * kWarpSize) {
    if (LaneIndex() < kMost) of_warp_[LaneIndex()] = SpreadCandidate();
    __syncwarp();
  }

  // Offers a candidate of each thread. In the order of candidates, those of a warp come before
  // those of the next one; those of a warp are in the order of the calls, then of the lanes.
  __device__ __forceinline__ void Offer(const SpreadCandidate& own) {
    const uint64_t threshold = of_warp_[kMost - 1].priority;
    if (__ballot_sync(kAllLanes, own.priority > threshold ? 1 : 0) == 0) return;
    offered_[LaneIndex()] = own.priority;
    SpreadCandidate earlier;
    if (LaneIndex() < kMost) earlier = of_warp_[LaneIndex()];
    __syncwarp();
    int own_rank = 0;
    int earlier_rank = LaneIndex();
#pragma unroll 8
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const uint64_t other = offered_[lane];
      own_rank += ComesBefore(other, lane, own.priority, LaneIndex());
      earlier_rank += other > earlier.priority ? 1 : 0;
    }
#pragma unroll
    for (int i = 0; i < kMost; ++i) own_rank += of_warp_[i].priority >= own.priority ? 1 : 0;
    __syncwarp();
    if (own_rank < kMost) of_warp_[own_rank] = own;
    if (earlier_rank < kMost) of_warp_[earlier_rank] = earlier;
    __syncwarp();
  }

  // Selects from the candidates of the first `warps` warps, and makes the selection visible to all
  // threads. REQUIRES: the others have offered nothing.
  __device__ __forceinline__ void Finish(int warps = kWarps) const {
    __syncthreads();
    const int index = ThreadIndex() / kParts;
    const int part = ThreadIndex() % kParts;
    const int count = warps * kMost;
    if (WarpIndex() < warps) {
      const SpreadCandidate own = shared_.of_warps[index];
      int rank = 0;
#pragma unroll 4
      for (int i = part; i < count; i += kParts) {
        rank += ComesBefore(shared_.of_warps[i].priority, i, own.priority, index);
      }
      rank = SumOverLanes<kParts>(rank);
      if (part == 0 && rank < kMost) shared_.selected[rank] = own;
    }
    __syncthreads();
  }
  // The i-th largest, without a key if there were fewer. REQUIRES: Finish() was called.
  __device__ __forceinline__ const SpreadCandidate& Get(int i) const { return shared_.selected[i]; }

 private:
  __device__ __forceinline__ static int ComesBefore(uint64_t priority, int index, uint64_t other,
                                                    int other_index) {
    return priority > other || (priority == other && index < other_index) ? 1 : 0;
  }

  Shared& shared_;
  SpreadCandidate* const of_warp_;
  uint64_t* const offered_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_LARGEST_PRIORITIES_CUH_
