// A split of the buffers of a warp's paths, copied to shared memory by the warp itself.
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

// Stands in for the RingReader of BufferSplit where a block has no producer: two stages in dynamic
// shared memory, of which each warp uses the rows of its own paths.
template <int kHeadDim>
class BufferStream {
  using Stage = BufferStage<kHeadDim>;
  static constexpr int kStages = 2;

 public:
  static constexpr int kBytes = kStages * Stage::kBytes;

  __device__ __forceinline__ BufferStream(const TileBuffers& buffers, int split, int group)
      : buffers_(buffers), split_(split), group_(group), stages_(buffers.positions, split) {
    for (int i = 0; i < kStages; ++i) Fetch();
  }

  __device__ __forceinline__ int Take() {
    CpAsyncWait<kStages - 1>();
    __syncwarp();
    return taken_++ % kStages;
  }
  __device__ __forceinline__ void Release(int /*stage*/) {
    __syncwarp();
    Fetch();
  }
  __device__ __forceinline__ uint32_t Address(int stage) const {
    return SmemAddress(DynamicSmem()) + stage * Stage::kBytes;
  }

 private:
  // Starts to copy the next stage of the split, if there is one.
  __device__ __forceinline__ void Fetch() {
    if (!stages_.done() && stages_.split() == split_) {
      constexpr int kRowsBytes = kGroupPaths * Stage::kRowBytes;  // of a position
      const int rows_at = group_ * kRowsBytes + LaneIndex() * 16;
      char* const to = DynamicSmem() + fetched_ % kStages * Stage::kBytes + rows_at;
      const int first = stages_.first_position();
#pragma unroll
      for (int position = 0; position < Stage::kPositions; ++position) {
        const char* const from = buffers_.At(first + position, stages_.is_values()) + rows_at;
#pragma unroll
        for (int at = 0; at < kRowsBytes; at += kWarpSize * 16) {
          CpAsync16(to + position * Stage::kPositionBytes + at, from + at);
        }
      }
      stages_.Advance();
    }
    ++fetched_;
    CpAsyncCommit();  // nothing, if there is none
  }

  const TileBuffers buffers_;
  const int split_;
  const int group_;
  BufferStages stages_;
  int fetched_ = 0;
  int taken_ = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_STREAM_CUH_
