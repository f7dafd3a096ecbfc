// A ring of keys and values in shared memory. One thread fills its stages by bulk copies; every
// consumer warpgroup reads each of them.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_KEY_RING_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_KEY_RING_CUH_

#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// A stage holds the K of kKeys keys, whole key blocks, then their V.
template <int kHeadDim, int kKeys, int kRingStages, int kConsumers>
struct KeyRing {
  static constexpr int kStages = kRingStages;
  static constexpr int kBlocks = kKeys / kKeyBlockKeys;             // key blocks of a stage
  static constexpr int kBlockBytes = kKeyBlockKeys * kHeadDim * 2;  // of the K of a key block
  static constexpr int kValuesAt = kBlocks * kBlockBytes;           // in a stage
  static constexpr int kStageBytes = 2 * kValuesAt;
  static constexpr int kBytes = kStages * (kStageBytes + 2 * static_cast<int>(sizeof(Mbarrier)));

  char* memory;  // kBytes

  // Called by one thread, before a barrier of the block.
  __device__ __forceinline__ void Init() const {
    for (int i = 0; i < kStages; ++i) {
      MbarrierInit(Full(i), 1);
      MbarrierInit(Empty(i), kConsumers * kWarpgroupWarps);
    }
  }

  __device__ __forceinline__ char* At(int stage) const { return memory + stage * kStageBytes; }
  __device__ __forceinline__ Mbarrier* Full(int stage) const {
    return reinterpret_cast<Mbarrier*>(memory + kStages * kStageBytes) + stage;
  }
  __device__ __forceinline__ Mbarrier* Empty(int stage) const { return Full(kStages + stage); }
};

// A thread's or a warp's place in a ring: stages one after the other, again and again.
template <typename Ring>
class RingPlace {
 public:
  __device__ __forceinline__ int stage() const { return stage_; }
  __device__ __forceinline__ uint32_t parity() const { return parity_; }
  __device__ __forceinline__ void Advance() {
    if (++stage_ == Ring::kStages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  int stage_ = 0;
  uint32_t parity_ = 0;
};

// Fills the ring with the key blocks of a head, from the first to the last. Called by one thread.
// What the last stage has room for beyond the last key block is that key block once more: consumers
// give those keys no weight, but multiply their V, which is finite, by zero.
template <int kHeadDim, typename Ring>
__device__ __forceinline__ void FillRing(const Ring& ring, const uint16_t* head, int key_blocks) {
  RingPlace<Ring> place;
#pragma unroll 1
  for (int first = 0; first < key_blocks; first += Ring::kBlocks) {
    const int stage = place.stage();
    MbarrierWait(ring.Empty(stage), place.parity() ^ 1);  // at first all stages are empty
    MbarrierArriveExpectTx(ring.Full(stage), Ring::kStageBytes);
#pragma unroll
    for (int i = 0; i < Ring::kBlocks; ++i) {
      const char* from = reinterpret_cast<const char*>(head + min(first + i, key_blocks - 1) *
                                                                  KeyBlockSize(kHeadDim));
      char* to = ring.At(stage) + i * Ring::kBlockBytes;
      CpAsyncBulk(to, from, Ring::kBlockBytes, ring.Full(stage));
      CpAsyncBulk(to + Ring::kValuesAt, from + Ring::kBlockBytes, Ring::kBlockBytes,
                  ring.Full(stage));
    }
    place.Advance();
  }
}

// A consumer warp's view of a ring. All lanes call it together. Every stage is taken and released,
// since only the parity of its phase is observable.
template <typename Ring>
class RingReader {
 public:
  __device__ __forceinline__ explicit RingReader(const Ring& ring) : ring_(ring) {}

  // Waits until the next stage is full; returns its index.
  __device__ __forceinline__ int Take() {
    const int stage = place_.stage();
    MbarrierWait(ring_.Full(stage), place_.parity());
    __syncwarp();
    place_.Advance();
    return stage;
  }

  // Marks a stage as read by this warp.
  __device__ __forceinline__ void Release(int stage) const {
    __syncwarp();
    if (LaneIndex() == 0) MbarrierArrive(ring_.Empty(stage));
  }

 private:
  const Ring ring_;  // a copy: behind a reference it would stay in local memory
  RingPlace<Ring> place_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_KEY_RING_CUH_
