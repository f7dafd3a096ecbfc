// Splits of the buffers of a warp's paths, copied to shared memory by the warp itself.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_STREAM_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_STREAM_CUH_

#include "kernels/cuda/attention/buffer_split.cuh"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// Whether buffers of such heads are attended to by mma (BufferSplit).
constexpr bool HasBufferSplit(int head_dim) { return head_dim == 32 || head_dim == 64; }

// Stands in for the RingReader of BufferSplit where no producer fills a ring: two stages in shared
// memory, of which each warp uses the rows of its own paths.
template <int kHeadDim>
class BufferStream {
  using Stage = BufferStage<kHeadDim>;
  static constexpr int kStages = 2;

 public:
  static constexpr int kBytes = kStages * Stage::kBytes;
  static constexpr bool kOfGroup = true;  // addresses are of the group's paths

  // The splits [first_split, end_split), one after the other. `memory`: kBytes of dynamic shared
  // memory from this offset on, the same for all groups of a tile.
  __device__ __forceinline__ BufferStream(const TileBuffers& buffers, int first_split,
                                          int end_split, int group, int memory)
      : positions_(buffers.positions),
        position_bytes_(2 * buffers.row_bytes),
        keys_(buffers.keys + group * kRowsBytes + LaneIndex() * 16),
        memory_(memory + group * kRowsBytes + LaneIndex() * 16),
        end_split_(end_split),
        split_(first_split),
        first_(first_split * kBufferChunk) {
    for (int i = 0; i < kStages; ++i) Fetch();
  }

  // Waits for the next stage; returns its index.
  __device__ __forceinline__ int Take() {
    CpAsyncWait<kStages - 1>();
    __syncwarp();
    return next_;
  }
  // Marks the stage that was taken as read.
  __device__ __forceinline__ void Release(int /*stage*/) {
    __syncwarp();
    Fetch();
  }
  __device__ __forceinline__ uint32_t Address(int stage) const {
    return SmemAddress(DynamicSmem()) + memory_ - LaneIndex() * 16 + stage * Stage::kBytes;
  }

 private:
  static constexpr int kRowsBytes = kGroupPaths * Stage::kRowBytes;  // of a position
  static_assert(kStages == 2);

  // Starts to copy the next stage, if there is one.
  __device__ __forceinline__ void Fetch() {
    if (split_ < end_split_ && first_ < positions_) {
      char* to = DynamicSmem() + memory_ + next_ * Stage::kBytes;
      const char* from =
          keys_ + int64_t{first_} * position_bytes_ + (is_values_ ? position_bytes_ / 2 : 0);
#pragma unroll 2
      for (int i = 1; i <= Stage::kPositions; ++i) {
#pragma unroll
        for (int at = 0; at < kRowsBytes; at += kWarpSize * 16) CpAsync16(to + at, from + at);
        to += Stage::kPositionBytes;
        if (first_ + i < positions_) from += position_bytes_;  // else that one again
      }
      Advance();
    }
    next_ ^= 1;
    CpAsyncCommit();  // nothing, if there is none
  }

  // A chunk has a stage of K, then one of V.
  __device__ __forceinline__ void Advance() {
    is_values_ = !is_values_;
    if (is_values_) return;
    first_ += kMaxBufferSplits * kBufferChunk;
    if (first_ >= positions_) first_ = ++split_ * kBufferChunk;
  }

  const int positions_;
  const int position_bytes_;
  const char* const keys_;  // this lane's 16 bytes of the first position
  const int memory_;        // likewise of the first stage
  const int end_split_;
  // The next stage to copy.
  int split_;
  int first_;  // position
  bool is_values_ = false;
  int next_ = 0;  // to be taken, and filled after that
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_STREAM_CUH_
