// A ring of weights in shared memory, in stages of kStageBytes.
//
// One thread fills the ring by bulk copies, far ahead of the consumers; copies continue while the
// consumers normalize rows. Consumers are warpgroups, which take the stages in turn. The number of
// stages is a multiple of the number of consumers, so that a stage always has the same consumer:
// one that skipped stages could mistake an older phase for its own, since only parity is
// observable.
#ifndef CHORALE_KERNELS_CUDA_LAYER_WEIGHT_RING_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_WEIGHT_RING_CUH_

#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

struct WeightRing {
  char* memory;     // [stages][kStageBytes]
  Mbarrier* full;   // [stages]
  Mbarrier* empty;  // [stages]
  int stages;

  // Called by one thread, before a barrier of the block.
  __device__ __forceinline__ void Init() const {
    for (int i = 0; i < stages; ++i) {
      MbarrierInit(full + i, 1);
      MbarrierInit(empty + i, kWarpgroupWarps);
    }
  }

  __device__ __forceinline__ char* At(int stage) const { return memory + stage * kStageBytes; }
};

// A warp's view of the ring. All lanes call it together.
class RingConsumer {
 public:
  // `consumer`: the index of the warpgroup.
  __device__ __forceinline__ RingConsumer(const WeightRing& ring, int consumer)
      : ring_(ring), stage_(consumer) {}

  // Waits until the warpgroup's next stage is full; returns its index.
  __device__ __forceinline__ int Take() {
    const int stage = stage_;
    MbarrierWait(ring_.full + stage, parity_);
    __syncwarp();
    stage_ += kConsumerWarpgroups;
    if (stage_ >= ring_.stages) {
      stage_ -= ring_.stages;
      parity_ ^= 1;
    }
    return stage;
  }

  __device__ __forceinline__ uint32_t Address(int stage) const {
    return SmemAddress(ring_.At(stage));
  }

  // Marks the stage as read by this warp.
  __device__ __forceinline__ void Release(int stage) const {
    __syncwarp();
    if (LaneIndex() == 0) MbarrierArrive(ring_.empty + stage);
  }

 private:
  const WeightRing ring_;  // a copy: behind a reference it would stay in local memory
  int stage_;
  uint32_t parity_ = 0;
};

// The one thread that fills a ring.
class RingProducer {
 public:
  __device__ __forceinline__ explicit RingProducer(const WeightRing& ring) : ring_(ring) {}

  // Waits until the next stage is empty and starts to copy kStageBytes to it.
  __device__ __forceinline__ void Fill(const char* from) {
    MbarrierWait(ring_.empty + stage_, parity_);
    MbarrierArriveExpectTx(ring_.full + stage_, kStageBytes);
    CpAsyncBulk(ring_.At(stage_), from, kStageBytes, ring_.full + stage_);
    if (++stage_ == ring_.stages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  const WeightRing ring_;
  int stage_ = 0;
  uint32_t parity_ = 1;  // all stages are empty
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_WEIGHT_RING_CUH_
