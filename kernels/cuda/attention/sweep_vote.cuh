// Whether a block of attention takes a second sweep over its keys.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_SWEEP_VOTE_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_SWEEP_VOTE_CUH_

#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// In shared memory: whether any of a block's consumer warps needs the shifted sweep.
template <int kWarps>
struct SweepVote {
  Mbarrier all_voted;
  uint32_t needs[kWarps];

  // Called by one thread, before a barrier of the block.
  __device__ __forceinline__ void Init() { MbarrierInit(&all_voted, kWarps); }

  // Called by all lanes of each consumer warp, once.
  __device__ __forceinline__ void Vote(bool lane_needs) {
    const uint32_t lanes = __ballot_sync(kAllLanes, lane_needs);
    if (LaneIndex() != 0) return;
    needs[WarpIndex()] = lanes;
    MbarrierArrive(&all_voted);
  }

  // Waits for all votes. Called by any thread.
  __device__ __forceinline__ bool Result() {
    MbarrierWait(&all_voted, 0);
    uint32_t any = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) any |= needs[warp];
    return any != 0;
  }
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_SWEEP_VOTE_CUH_
