// Weight tiles in registers, prefetched from global memory, and their products with rows in shared
// memory, by mma.
#ifndef CHORALE_KERNELS_CUDA_LAYER_WEIGHT_PREFETCH_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_WEIGHT_PREFETCH_CUH_

#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/weight_tiles.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// A lane's sums of 8 outputs of a weight tile for kGroups groups: rows g and g + 8 of each group,
// outputs {2j, 2j+1}. Two partial sums: of the first 64 inputs of each weight tile, and of the
// others. So a kernel may begin with either half of a row.
template <int kGroups>
struct Sums {
  float parts[kGroups][2][4] = {};

  // Group m, row g or g + 8, output 2j or 2j+1: i = 2 (row / 8) + output % 2.
  __device__ __forceinline__ float Total(int m, int i) const {
    return parts[m][0][i] + parts[m][1][i];
  }
};

// A fragments of kSteps k-steps of 16 inputs, which are loaded together to overlap their latency.
// If they cover all inputs of a weight tile, the next weight tile of the same inputs reuses them.
template <int kGroups, int kSteps>
struct Fragments {
  Words4 v[kSteps][kGroups];
};

// A lane's view of operand A in shared memory (MmaOperandAt), for the inputs of one weight tile:
// `a` is group 0 at the first input, groups are group_stride elements apart.
struct MmaOperand {
  const uint16_t* halves[2];
  int stride;

  __device__ __forceinline__ MmaOperand(const uint16_t* a, int group_stride)
      : stride(group_stride) {
    const int lane = LaneIndex();
    halves[0] = a + MmaOperandLane(lane / 4, lane % 4, 0) * 8;
    halves[1] = a + MmaOperandLane(lane / 4, lane % 4, 1) * 8;
  }

  // The fragment of k-step `step`: 16 inputs.
  __device__ __forceinline__ Words4 Load(int group, int step) const {
    return LoadAs<Words4>(halves[step % 2] + group * stride + step * 256);
  }
};

// Adds the products of kSteps k-steps of a weight tile, from `first` on, to `sums`. With `reuse`,
// `fragments` already holds these k-steps. weight(tile, step): the lane's 8 weights of 8 outputs
// and 32 inputs.
template <int kGroups, int kSteps, int kTiles, typename Weight>
__device__ __forceinline__ void AddProducts(const MmaOperand& a, int first, bool reuse,
                                            const Weight& weight,
                                            Fragments<kGroups, kSteps>& fragments,
                                            Sums<kGroups> (&sums)[kTiles]) {
  if (!reuse) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int m = 0; m < kGroups; ++m) fragments.v[i][m] = a.Load(m, first + i);
    }
  }
  constexpr int kHalfSteps = kWeightTileInputs / 16 / 2;
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    // Of both halves in turns, if they are there, so that consecutive mma do not depend on each
    // other.
    const int of_steps = kSteps > kHalfSteps ? i % 2 * kHalfSteps + i / 2 : i;
    const int step = first + of_steps;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const Words4 w = weight(tile, step / 2);
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        const Words4& rows = fragments.v[of_steps][m];
        Mma(sums[tile].parts[m][step / kHalfSteps], rows.w[0], rows.w[1], rows.w[2], rows.w[3],
            w.w[step % 2 * 2], w.w[step % 2 * 2 + 1]);
      }
    }
  }
}

// The weight tiles that a block consumes: those of one array, then those of another. Only one warp
// uses each weight, so weights go from L2 directly to the registers of their lane. Two weight tiles
// are in flight, each register being reloaded as soon as it has been used: a multiprocessor gets
// its share of L2 bandwidth only with some 50 KB in flight.
template <int kWarps>
class WeightPrefetch {
 public:
  // A warp computes kTiles times 8 outputs of a weight tile, for all groups.
  static constexpr int kTiles = kWeightTileOutputs / 8 / kWarps;

  __device__ __forceinline__ WeightPrefetch(const uint16_t* weight_tiles, int count,
                                            const uint16_t* second_weight_tiles, int second_count)
      : next_(reinterpret_cast<const Words4*>(weight_tiles) + LaneOffset()),
        second_array_(reinterpret_cast<const Words4*>(second_weight_tiles) + LaneOffset()),
        left_of_first_(count),
        left_(count + second_count) {
    Refill(ahead_[0]);
  }

  // Loads the second weight tile: later than the first, so that loads on the critical path are not
  // queued behind it. Called once, before the first GEMM.
  __device__ __forceinline__ void FetchSecond() { Refill(ahead_[1]); }

  // Adds the products with the next weight tile to `sums`. `a`, `stride`: see MmaOperand. With
  // `reuse`, `a` is that of the previous weight tile, whose fragments are still there.
  template <int kGroups, int kSteps>
  __device__ __forceinline__ void AddWeightTile(const uint16_t* a, int stride, bool reuse,
                                                Fragments<kGroups, kSteps>& fragments,
                                                Sums<kGroups> (&sums)[kTiles]) {
    // Registers cannot be indexed: each of the two weight tiles has a copy of the code.
    if (odd_) {
      AddAndRefill(a, stride, reuse, ahead_[1], fragments, sums);
    } else {
      AddAndRefill(a, stride, reuse, ahead_[0], fragments, sums);
    }
    odd_ = !odd_;
  }

 private:
  // A lane's words of a weight tile, 8 weights each: kTiles times 8 outputs, 32 inputs at a time.
  static constexpr int kTileWords = kWeightTileInputs / 32;
  static constexpr int kLaneWords = kTiles * kTileWords;

  // Index of this lane's first word in every weight tile.
  __device__ __forceinline__ static int LaneOffset() {
    return static_cast<int>(WarpIndex()) * (kLaneWords * kWarpSize) + static_cast<int>(LaneIndex());
  }

  __device__ __forceinline__ void Refill(Words4 (&weight_tile)[kLaneWords]) {
    if (left_of_first_ == 0) next_ = second_array_;
    if (left_ > 0) {
#pragma unroll
      for (int k = 0; k < kLaneWords; ++k) weight_tile[k] = LoadNcNoAllocate(next_ + k * kWarpSize);
    }
    next_ += kWeightTileSize / 8;
    --left_of_first_;
    --left_;
  }

  template <int kGroups, int kSteps>
  __device__ __forceinline__ void AddAndRefill(const uint16_t* a, int stride, bool reuse,
                                               Words4 (&weight_tile)[kLaneWords],
                                               Fragments<kGroups, kSteps>& fragments,
                                               Sums<kGroups> (&sums)[kTiles]) {
    const MmaOperand operand(a, stride);
    const auto weight = [&weight_tile](int tile, int step) {
      return weight_tile[tile * kTileWords + step];
    };
    constexpr int kAllSteps = kWeightTileInputs / 16;
#pragma unroll
    for (int first = 0; first < kAllSteps; first += kSteps) {
      AddProducts(operand, first, kSteps == kAllSteps && reuse, weight, fragments, sums);
    }
    Refill(weight_tile);
  }

  const Words4* next_;  // in the next weight tile to load
  const Words4* const second_array_;
  int left_of_first_;  // weight tiles of the first array to load
  int left_;           // weight tiles of both
  bool odd_ = false;   // whether ahead_[1] is consumed next
  Words4 ahead_[2][kLaneWords];
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_WEIGHT_PREFETCH_CUH_
