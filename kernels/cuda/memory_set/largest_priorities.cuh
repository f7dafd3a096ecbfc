// The candidates with the largest priorities of those that the threads of a block have.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_LARGEST_PRIORITIES_CUH_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_LARGEST_PRIORITIES_CUH_

#include <cstdint>

#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/memory_set/spread_keys.h"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// Selects kCentresAtOnce candidates by counting, for each candidate, those that come before it: of
// larger priority, or of equal priority and offered earlier. All threads of a block call the
// methods together.
class LargestPriorities {
  static constexpr int kMost = static_cast<int>(kCentresAtOnce);
  static constexpr int kWarps = kSpreadThreads / kWarpSize;
  // The candidates selected so far, then the best of each warp.
  static constexpr int kRanked = kMost + kWarps * kMost;

 public:
  struct Shared {
    SpreadCandidate ranked[kRanked];
    uint64_t offered[kSpreadThreads];
  };

  __device__ __forceinline__ explicit LargestPriorities(Shared& shared) : shared_(shared) {
    if (ThreadIndex() < kMost) shared_.ranked[ThreadIndex()] = SpreadCandidate();
  }

  // Offers a candidate of each thread. They come after those of earlier calls, in the order of the
  // threads.
  __device__ __forceinline__ void Offer(const SpreadCandidate& own) {
    uint64_t* const of_warp = shared_.offered + WarpIndex() * kWarpSize;
    of_warp[LaneIndex()] = own.priority;
    __syncwarp();
    int before = 0;
#pragma unroll
    for (int lane = 0; lane < kWarpSize; ++lane) {
      before += ComesBefore(of_warp[lane], lane, own.priority, LaneIndex());
    }
    if (before < kMost) shared_.ranked[kMost + WarpIndex() * kMost + before] = own;
    __syncthreads();
    SpreadCandidate ranked;
    int rank = kMost;
    if (ThreadIndex() < kRanked) {
      ranked = shared_.ranked[ThreadIndex()];
      rank = 0;
      for (int i = 0; i < kRanked; ++i) {
        rank += ComesBefore(shared_.ranked[i].priority, i, ranked.priority, ThreadIndex());
      }
    }
    __syncthreads();
    if (rank < kMost) shared_.ranked[rank] = ranked;
  }

  // Makes the selection visible to all threads.
  __device__ __forceinline__ void Finish() const { __syncthreads(); }
  // The i-th largest. REQUIRES: Finish() was called.
  __device__ __forceinline__ const SpreadCandidate& Get(int i) const { return shared_.ranked[i]; }

 private:
  __device__ __forceinline__ static int ComesBefore(uint64_t priority, int index, uint64_t other,
                                                    int other_index) {
    return priority > other || (priority == other && index < other_index) ? 1 : 0;
  }

  Shared& shared_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_LARGEST_PRIORITIES_CUH_
