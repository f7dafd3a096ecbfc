// A ring of keys and values in shared memory. One thread fills its stages by bulk copies; every
// consumer warpgroup takes and releases each of them.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_KEY_RING_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_KEY_RING_CUH_

#include "base/integer_math.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// A stage holds kStageKeyBlocks key blocks as they lie in a context, or kOtherBytes of something
// else.
template <int kHeadDim, int kStageKeyBlocks, int kStageCount, int kOtherBytes = 0>
struct KeyRing {
  static constexpr int kStages = kStageCount;
  static constexpr int kKeyBlocks = kStageKeyBlocks;
  static constexpr int kKeys = kKeyBlocks * kKeyBlockKeys;

  static constexpr int kKeyBlockBytes = static_cast<int>(KeyBlockSize(kHeadDim)) * 2;
  static constexpr int kKeysBytes = kKeyBlocks * kKeyBlockBytes;
  // Aligned to 1,024 bytes: the swizzle of wgmma follows from addresses.
  static constexpr int kStageBytes =
      static_cast<int>(RoundUp(kKeysBytes > kOtherBytes ? kKeysBytes : kOtherBytes, 1024));
  static constexpr int kBytes = kStages * (kStageBytes + 2 * static_cast<int>(sizeof(Mbarrier)));

  char* memory;  // kBytes

  // Called by one thread, before a barrier of the block.
  __device__ __forceinline__ void Init(int consumer_warpgroups) const {
    for (int i = 0; i < kStages; ++i) {
      MbarrierInit(Full(i), 1);
      MbarrierInit(Empty(i), consumer_warpgroups * kWarpgroupWarps);
    }
  }

  __device__ __forceinline__ char* At(int stage) const { return memory + stage * kStageBytes; }
  __device__ __forceinline__ Mbarrier* Full(int stage) const {
    return reinterpret_cast<Mbarrier*>(memory + kStages * kStageBytes) + stage;
  }
  __device__ __forceinline__ Mbarrier* Empty(int stage) const { return Full(kStages + stage); }
};

// A thread's or a warp's place in a ring, or in a part of one: stages one after the other, again
// and again.
class RingPlace {
 public:
  __device__ __forceinline__ RingPlace(int first, int stages)
      : first_(first), end_(first + stages), stage_(first) {}

  __device__ __forceinline__ int stage() const { return stage_; }
  __device__ __forceinline__ uint32_t parity() const { return parities_ >> stage_ & 1; }
  __device__ __forceinline__ void Advance() {
    parities_ ^= uint32_t{1} << stage_;
    if (++stage_ == end_) stage_ = first_;
  }

  // The first place in a part of the ring.
  __device__ __forceinline__ RingPlace Part(int first, int stages) const {
    RingPlace part(first, stages);
    part.parities_ = parities_;
    return part;
  }
  // After use of a part.
  __device__ __forceinline__ void Join(const RingPlace& part) {
    const uint32_t stages = (uint32_t{1} << part.end_) - (uint32_t{1} << part.first_);
    parities_ = (parities_ & ~stages) | (part.parities_ & stages);
  }

 private:
  int first_;
  int end_;
  int stage_;
  uint32_t parities_ = 0;  // bits of stages
};

// The one thread that fills a ring, or a part of it.
template <typename Ring>
class RingFiller {
 public:
  __device__ __forceinline__ explicit RingFiller(const Ring& ring, int first = 0,
                                                 int stages = Ring::kStages)
      : ring_(ring), place_(first, stages) {}

  // Waits until the next stage is empty, and starts to copy key blocks of a head to it, which has
  // `key_blocks` in all: from `first` on, beyond the last one that again. Consumers give keys that
  // are not there no weight, but multiply their V, which is finite, by zero.
  __device__ __forceinline__ void Fill(const uint16_t* head, int first, int key_blocks) {
    Fill<Ring::kKeyBlocks, Ring::kKeyBlockBytes>(Ring::kKeyBlockBytes, [&](int i) {
      return head + min(first + i, key_blocks - 1) * (Ring::kKeyBlockBytes / 2);
    });
  }

  // Likewise with kCopies copies of `bytes` bytes from source(i), kStride bytes apart in the stage.
  template <int kCopies, int kStride, typename Source>
  __device__ __forceinline__ void Fill(int bytes, const Source& source) {
    const int stage = place_.stage();
    MbarrierWait(ring_.Empty(stage), place_.parity() ^ 1);  // at first all stages are empty
    MbarrierArriveExpectTx(ring_.Full(stage), kCopies * bytes);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      CpAsyncBulk(ring_.At(stage) + i * kStride, source(i), bytes, ring_.Full(stage));
    }
    place_.Advance();
  }

  __device__ __forceinline__ RingPlace& place() { return place_; }

 private:
  const Ring ring_;
  RingPlace place_;
};

// A consumer warp's view of a ring, or of a part of it. All lanes call it together. Every stage is
// taken and released, since only the parity of its phase is observable.
template <typename Ring>
class RingReader {
 public:
  static constexpr bool kOfGroup = false;  // a stage has the buffers of all paths of a tile
  // `arrivals`: of one release.
  __device__ __forceinline__ explicit RingReader(const Ring& ring, int first = 0,
                                                 int stages = Ring::kStages, int arrivals = 1)
      : ring_(ring), place_(first, stages), arrivals_(arrivals) {}

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
    if (LaneIndex() < arrivals_) MbarrierArrive(ring_.Empty(stage));
  }

  // Takes and releases all stages of `keys` keys, for a warp that has no rows.
  __device__ __forceinline__ void Drain(int keys) {
#pragma unroll 1
    for (int left = keys; left > 0; left -= Ring::kKeys) Release(Take());
  }

  __device__ __forceinline__ uint32_t Address(int stage) const {
    return SmemAddress(ring_.At(stage));
  }
  __device__ __forceinline__ RingReader Part(int first, int stages, int arrivals) const {
    RingReader part(ring_, first, stages, arrivals);
    part.place_ = place_.Part(first, stages);
    return part;
  }
  __device__ __forceinline__ RingPlace& place() { return place_; }

 private:
  const Ring ring_;  // a copy: behind a reference it would stay in local memory
  RingPlace place_;
  const int arrivals_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_KEY_RING_CUH_
