// A ring of keys and values in shared memory. One thread fills its stages by bulk copies; every
// consumer warpgroup reads each of them.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_KEY_RING_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_KEY_RING_CUH_

#include "kernels/cuda/attention/encode_attention.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// A stage holds two key blocks as they lie in a context.
template <int kHeadDim>
struct KeyRing {
  static constexpr int kStages = 4;
  static constexpr int kKeyBlocks = 2;  // of a stage
  static constexpr int kKeys = kKeyBlocks * kKeyBlockKeys;
  static constexpr int kConsumers = kEncodeBlockTiles;  // warpgroups

  static constexpr int kKeyBlockBytes = static_cast<int>(KeyBlockSize(kHeadDim)) * 2;
  static constexpr int kValuesAt = kKeyBlockBytes / 2;  // in a key block
  static constexpr int kStageBytes = kKeyBlocks * kKeyBlockBytes;
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
template <int kStages>
class RingPlace {
 public:
  __device__ __forceinline__ int stage() const { return stage_; }
  __device__ __forceinline__ uint32_t parity() const { return parity_; }
  __device__ __forceinline__ void Advance() {
    if (++stage_ == kStages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  int stage_ = 0;
  uint32_t parity_ = 0;
};

// Fills the ring with the key blocks of a head, from the first to the last, beginning at `place`,
// which becomes the one behind them. Called by one thread.
// If their number is odd, the last stage holds the last key block twice: consumers give the keys of
// the second no weight, but multiply their V, which is finite, by zero.
template <int kHeadDim>
__device__ __forceinline__ void FillRing(const KeyRing<kHeadDim>& ring, const uint16_t* head,
                                         int key_blocks,
                                         RingPlace<KeyRing<kHeadDim>::kStages>& place) {
  using Ring = KeyRing<kHeadDim>;
#pragma unroll 1
  for (int first = 0; first < key_blocks; first += Ring::kKeyBlocks) {
    const int stage = place.stage();
    MbarrierWait(ring.Empty(stage), place.parity() ^ 1);  // at first all stages are empty
    MbarrierArriveExpectTx(ring.Full(stage), Ring::kStageBytes);
#pragma unroll
    for (int i = 0; i < Ring::kKeyBlocks; ++i) {
      CpAsyncBulk(ring.At(stage) + i * Ring::kKeyBlockBytes,
                  head + min(first + i, key_blocks - 1) * KeyBlockSize(kHeadDim),
                  Ring::kKeyBlockBytes, ring.Full(stage));
    }
    place.Advance();
  }
}

// A consumer warp's view of a ring. All lanes call it together. Every stage is taken and released,
// since only the parity of its phase is observable.
template <int kHeadDim>
class RingReader {
  using Ring = KeyRing<kHeadDim>;

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

  // Takes and releases all stages of a context, for a warp that has no rows.
  __device__ __forceinline__ void Drain(int context_rows) {
#pragma unroll 1
    for (int left = context_rows; left > 0; left -= Ring::kKeys) Release(Take());
  }

 private:
  const Ring ring_;  // a copy: behind a reference it would stay in local memory
  RingPlace<Ring::kStages> place_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_KEY_RING_CUH_
