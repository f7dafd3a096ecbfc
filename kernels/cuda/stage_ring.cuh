// The stream of weights and keys that a block of the decode kernel consumes: stages of a few
// kilobytes, in a ring in shared memory.
//
// One thread fills the ring, far ahead of those who compute, by copies in bulk; they go on while
// rows are normalized, and from one layer and one step to the next. A stage is read by one or by a
// few warps, which know its number in the stream without being told.
#ifndef CHORALE_KERNELS_CUDA_STAGE_RING_CUH_
#define CHORALE_KERNELS_CUDA_STAGE_RING_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/weight_stream.cuh"

namespace chorale::kernels::cuda {

// Arrivals that make a stage empty; its readers share them.
inline constexpr int kStageReaders = 16;
inline constexpr uint32_t kNoStage = ~0u;

struct StageRing {
  char* memory;     // [stages] of stage_bytes
  Arrivals* full;   // [stages]
  Arrivals* empty;  // [stages]
  uint32_t* owner;  // [stages]: the stage that is there, or on its way
  uint32_t stages;
  uint32_t inverse;  // RingInverse(stages)
  int stage_bytes;

  // By one thread, before all others begin.
  __device__ __forceinline__ void Init() const {
    for (uint32_t i = 0; i < stages; ++i) {
      InitArrivals(full + i, 1);
      InitArrivals(empty + i, kStageReaders);
      owner[i] = kNoStage;
    }
  }

  // For a whole warp: waits for a stage of the stream. A warp may come so early that an earlier
  // stage in the same slot has not arrived yet. A phase's parity alone does not tell the two apart,
  // so the slot says which stage it is about to have.
  __device__ __forceinline__ const uint16_t* Wait(uint32_t stage) const {
    const uint32_t round = __umulhi(stage, inverse);
    const uint32_t slot = stage - round * stages;
    WaitForValue(owner + slot, stage);
    WaitForPhase(full + slot, round % 2);
    __syncwarp();
    return reinterpret_cast<const uint16_t*>(memory + slot * stage_bytes);
  }

  // For a whole warp, when it has read the stage. All readers' arrivals together are kStageReaders.
  __device__ __forceinline__ void Release(uint32_t stage, int arrivals) const {
    __syncwarp();
    const uint32_t slot = stage - __umulhi(stage, inverse) * stages;
    if (ThreadIndex() % kWarp == 0) Arrive(empty + slot, arrivals);
  }
};

// Of stage < 2^27, stage / stages is the upper half of stage * RingInverse(stages).
constexpr uint32_t RingInverse(uint32_t stages) {
  return static_cast<uint32_t>((uint64_t{1} << 32) / stages + 1);
}

// The one thread that fills a ring.
class RingFiller {
 public:
  __device__ __forceinline__ explicit RingFiller(const StageRing& ring) : ring_(ring) {}

  // The next stage of the stream: waits until there is room, and asks for it.
  __device__ __forceinline__ void Fill(const void* from, int bytes) {
    WaitForPhase(ring_.empty + slot_, parity_);
    StoreValue(ring_.owner + slot_, stage_++);
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
  uint32_t stage_ = 0;
  uint32_t slot_ = 0;
  uint32_t parity_ = 1;  // all stages are empty
};

// Weights of the row kernel's stages from a ring (Rows::Multiply). What bounds a product is how
// often operands and weights are read from shared memory: of four groups, half of the warps have
// half of the rows.
template <int kGroups, int kStageBytes>
class RingWeights {
 public:
  static constexpr int kParts = kGroups == 4 ? 2 : 1;
  static constexpr int kTiles = 2 * kParts;
  static constexpr int kBusyWarps = kSlabOutputs / (8 * kTiles) * kParts;

  // `next`: the stage of the stream that is consumed next, moved on with every slab.
  __device__ __forceinline__ RingWeights(const StageRing& ring, uint32_t& next)
      : ring_(ring), next_(next) {}

  __device__ __forceinline__ void Skip(int slabs) { next_ += slabs * kSlabStages; }

  static constexpr int Together(int) { return kSlabInputs / 16; }

  template <int kOwn, int kTogether>
  __device__ __forceinline__ void AddSlab(const uint16_t* operand, int stride, bool again,
                                          Fragments<kOwn, kTogether>& a,
                                          Sums<kOwn> (&sums)[kTiles]) {
    const int thread = ThreadIndex();
    const int output = thread / kWarp / kParts * kWarpOutputs;
    const uint32_t stage = next_ + output / kStageOutputs;
    const uint16_t* weights =
        ring_.Wait(stage) + output % kStageOutputs * kSlabInputs + thread % kWarp * 8;
    const OperandLane rows(operand, stride);
    const auto weight = [weights](int tile, int step) {
      return LoadAs<Words4>(weights + (tile * (kSlabInputs / 32) + step) * 256);
    };
    AddProducts(rows, 0, again, weight, a, sums);
    ring_.Release(stage, kStageReaders / kStageWarps);
    next_ += kSlabStages;
  }

 private:
  static constexpr int kWarpOutputs = 8 * kTiles;
  static constexpr int kSlabStages = kSlabSize * 2 / kStageBytes;
  static constexpr int kStageOutputs = kStageBytes / 2 / kSlabInputs;
  static constexpr int kStageWarps = kStageOutputs / kWarpOutputs * kParts;

  const StageRing& ring_;
  uint32_t& next_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_STAGE_RING_CUH_
