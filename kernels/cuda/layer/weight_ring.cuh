// The stream of weights that a block consumes: stages of a few kilobytes, in a ring in shared
// memory.
//
// One thread fills the ring, far ahead of those who compute, by copies in bulk, which go on while
// rows are normalized. Readers, warpgroups, take the stages in turn. The number of stages is a
// multiple of the number of readers, so that all stages of a stage_idx have the same reader: one
// that skipped some of them could take an earlier one for its own, since a phase tells its parity
// alone.
#ifndef CHORALE_KERNELS_CUDA_LAYER_WEIGHT_RING_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_WEIGHT_RING_CUH_

#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

struct WeightRing {
  char* memory;     // [stages] of kStageBytes
  Mbarrier* full;   // [stages]
  Mbarrier* empty;  // [stages]
  int stages;

  // By one thread, before all others begin.
  __device__ __forceinline__ void Init() const {
    for (int i = 0; i < stages; ++i) {
      MbarrierInit(full + i, 1);
      MbarrierInit(empty + i, kWarpgroupWarps);
    }
  }

  __device__ __forceinline__ char* At(int stage_idx) const {
    return memory + stage_idx * kStageBytes;
  }
};

// What a warp reads a ring by. All lanes call it together.
class RingConsumer {
 public:
  // `reader`: the warpgroup's number, by which its first stage is known.
  __device__ __forceinline__ RingConsumer(const WeightRing& ring, int reader)
      : ring_(ring), stage_idx_(reader) {}

  // Waits for the reader's next stage; returns its stage_idx.
  __device__ __forceinline__ int Next() {
    const int stage_idx = stage_idx_;
    MbarrierWait(ring_.full + stage_idx, parity_);
    __syncwarp();
    stage_idx_ += kConsumerWarpgroups;
    if (stage_idx_ >= ring_.stages) {
      stage_idx_ -= ring_.stages;
      parity_ ^= 1;
    }
    return stage_idx;
  }

  __device__ __forceinline__ const char* At(int stage_idx) const { return ring_.At(stage_idx); }

  // The warp has read the stage_idx's stage.
  __device__ __forceinline__ void Release(int stage_idx) const {
    __syncwarp();
    if (LaneIndex() == 0) MbarrierArrive(ring_.empty + stage_idx);
  }

 private:
  const WeightRing ring_;  // not a reference: the compiler would keep all of it in memory
  int stage_idx_;
  uint32_t parity_ = 0;
};

// The one thread that fills a ring.
class RingProducer {
 public:
  __device__ __forceinline__ explicit RingProducer(const WeightRing& ring) : ring_(ring) {}

  // The next stage of the stream: waits until there is room, and asks for it.
  __device__ __forceinline__ void Fill(const char* from) {
    MbarrierWait(ring_.empty + stage_idx_, parity_);
    MbarrierArriveExpectTx(ring_.full + stage_idx_, kStageBytes);
    CpAsyncBulk(ring_.At(stage_idx_), from, kStageBytes, ring_.full + stage_idx_);
    if (++stage_idx_ == ring_.stages) {
      stage_idx_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  const WeightRing ring_;
  int stage_idx_ = 0;
  uint32_t parity_ = 1;  // all stages are empty
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_WEIGHT_RING_CUH_
