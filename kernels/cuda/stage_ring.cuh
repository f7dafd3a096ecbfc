// The stream of weights and keys that a block of the decode kernel consumes: stages of a few
// kilobytes, in a ring in shared memory.
//
// One thread fills the ring, far ahead of those who compute, by copies in bulk; they go on while
// rows are normalized, and from one layer and one step to the next. A stage is read by one or by a
// few warps, which know its number in the stream without being told.
#ifndef CHORALE_KERNELS_CUDA_STAGE_RING_CUH_
#define CHORALE_KERNELS_CUDA_STAGE_RING_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/layout.h"

namespace chorale::kernels::cuda {

// Arrivals that make a stage empty; its readers share them.
inline constexpr int kStageReaders = 16;

struct StageRing {
  char* memory;     // [stages] of stage_bytes
  Arrivals* full;   // [stages]
  Arrivals* empty;  // [stages]
  uint32_t* asked;  // stages that were asked for so far
  uint32_t stages;
  uint32_t inverse;  // RingInverse(stages)
  int stage_bytes;

  // By one thread, before all others begin.
  __device__ __forceinline__ void Init() const {
    for (uint32_t i = 0; i < stages; ++i) {
      InitArrivals(full + i, 1);
      InitArrivals(empty + i, kStageReaders);
    }
    *asked = 0;
  }
};

// Of stage < 2^27, stage / stages is the upper half of stage * RingInverse(stages).
constexpr uint32_t RingInverse(uint32_t stages) {
  return static_cast<uint32_t>((uint64_t{1} << 32) / stages + 1);
}

// What a warp reads a ring by.
class RingReader {
 public:
  __device__ __forceinline__ explicit RingReader(const StageRing& ring) : ring_(ring) {}

  // For a whole warp: waits for a stage of the stream. A warp may come so early that an earlier
  // stage in the same slot has not arrived yet, and a phase's parity alone does not tell the two
  // apart: so the warp first sees that the stage was asked for, which it remembers of all before.
  __device__ __forceinline__ const uint16_t* Wait(uint32_t stage) {
    if (stage >= asked_) {
      uint32_t asked = 0;
      if (ThreadIndex() % kWarp == 0) asked = WaitForMore(ring_.asked, stage);
      asked_ = __shfl_sync(kAllLanes, asked, 0);
    }
    const uint32_t round = __umulhi(stage, ring_.inverse);
    const uint32_t slot = stage - round * ring_.stages;
    WaitForPhase(ring_.full + slot, round % 2);
    __syncwarp();
    return reinterpret_cast<const uint16_t*>(ring_.memory + slot * ring_.stage_bytes);
  }

  // For a whole warp, when it has read the stage. All readers' arrivals together are kStageReaders.
  __device__ __forceinline__ void Release(uint32_t stage, int arrivals) const {
    __syncwarp();
    const uint32_t slot = stage - __umulhi(stage, ring_.inverse) * ring_.stages;
    if (ThreadIndex() % kWarp == 0) Arrive(ring_.empty + slot, arrivals);
  }

 private:
  const StageRing ring_;  // not a reference: the compiler would keep all of it in memory
  uint32_t asked_ = 0;
};

// The one thread that fills a ring.
class RingFiller {
 public:
  __device__ __forceinline__ explicit RingFiller(const StageRing& ring) : ring_(ring) {}

  // The next stage of the stream: waits until there is room, and asks for it.
  __device__ __forceinline__ void Fill(const void* from, int bytes) {
    WaitForPhase(ring_.empty + slot_, parity_);
    CountUp(ring_.asked);
    ArriveExpecting(ring_.full + slot_, bytes);
    CopyInBulk(ring_.memory + slot_ * ring_.stage_bytes, from, bytes, ring_.full + slot_);
    if (++slot_ == ring_.stages) {
      slot_ = 0;
      parity_ ^= 1;
    }
  }

  // A sequence of slabs, or a part of one.
  __device__ __forceinline__ void FillSlabs(const uint16_t* slabs, int count) {
    const char* from = reinterpret_cast<const char*>(slabs);
    const int stages = count * (kSlabSize * 2 / ring_.stage_bytes);
    for (int i = 0; i < stages; ++i) {
      Fill(from, ring_.stage_bytes);
      from += ring_.stage_bytes;
    }
  }

 private:
  const StageRing& ring_;
  uint32_t slot_ = 0;
  uint32_t parity_ = 1;  // all stages are empty
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_STAGE_RING_CUH_
