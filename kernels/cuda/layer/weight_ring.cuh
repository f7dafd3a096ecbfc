// The stream of weights that a block consumes: stages of a few kilobytes, in a ring in shared
// memory.
//
// One thread fills the ring, far ahead of those who compute, by copies in bulk, which go on while
// rows are normalized. Readers, warpgroups, take the stages in turn. The number of slots is a
// multiple of the number of readers, so that all stages of a slot have the same reader: one that
// skipped some of them could take an earlier one for its own, since a phase tells its parity alone.
#ifndef CHORALE_KERNELS_CUDA_LAYER_WEIGHT_RING_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_WEIGHT_RING_CUH_

#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

struct StageRing {
  char* memory;     // [slots] of kRowStageBytes
  Mbarrier* full;   // [slots]
  Mbarrier* empty;  // [slots]
  int slots;

  // By one thread, before all others begin.
  __device__ __forceinline__ void Init() const {
    for (int i = 0; i < slots; ++i) {
      MbarrierInit(full + i, 1);
      MbarrierInit(empty + i, kWarpgroupWarps);
    }
  }

  __device__ __forceinline__ char* At(int slot) const { return memory + slot * kRowStageBytes; }
};

// What a warp reads a ring by. All lanes call it together.
class RingReader {
 public:
  // `reader`: the warpgroup's number, by which its first stage is known.
  __device__ __forceinline__ RingReader(const StageRing& ring, int reader)
      : ring_(ring), slot_(reader) {}

  // Waits for the reader's next stage; returns its slot.
  __device__ __forceinline__ int Next() {
    const int slot = slot_;
    MbarrierWait(ring_.full + slot, parity_);
    __syncwarp();
    slot_ += kRingReaders;
    if (slot_ >= ring_.slots) {
      slot_ -= ring_.slots;
      parity_ ^= 1;
    }
    return slot;
  }

  __device__ __forceinline__ const char* At(int slot) const { return ring_.At(slot); }

  // The warp has read the slot's stage.
  __device__ __forceinline__ void Release(int slot) const {
    __syncwarp();
    if (LaneIndex() == 0) MbarrierArrive(ring_.empty + slot);
  }

 private:
  const StageRing ring_;  // not a reference: the compiler would keep all of it in memory
  int slot_;
  uint32_t parity_ = 0;
};

// The one thread that fills a ring.
class RingFiller {
 public:
  __device__ __forceinline__ explicit RingFiller(const StageRing& ring) : ring_(ring) {}

  // The next stage of the stream: waits until there is room, and asks for it.
  __device__ __forceinline__ void Fill(const char* from) {
    MbarrierWait(ring_.empty + slot_, parity_);
    MbarrierArriveExpectTx(ring_.full + slot_, kRowStageBytes);
    CpAsyncBulk(ring_.At(slot_), from, kRowStageBytes, ring_.full + slot_);
    if (++slot_ == ring_.slots) {
      slot_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  const StageRing ring_;
  int slot_ = 0;
  uint32_t parity_ = 1;  // all slots are empty
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_WEIGHT_RING_CUH_
