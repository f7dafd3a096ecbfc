// Matrices on their way through a block of the row kernel, weight tile by weight tile, and the sums
// of their products (layout.h, Weights).
#ifndef CHORALE_KERNELS_CUDA_LAYER_WEIGHT_PREFETCH_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_WEIGHT_PREFETCH_CUH_

#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// Sums of 8 outputs of a weight tile, for the rows of kGroups groups: rows g and g + 8 of each
// group, outputs {2j, 2j+1}. In two parts, each over every other 16 inputs, so that one instruction
// need not wait for the one before it.
template <int kGroups>
struct Sums {
  float parts[kGroups][2][4] = {};

  // Of rows g or g + 8 of group m, output 2j or 2j+1: i is 2 (row / 8) + output % 2.
  __device__ __forceinline__ float Total(int m, int i) const {
    return parts[m][0][i] + parts[m][1][i];
  }
};

// Fragments of an operand that are loaded together, so that only the first is waited for: of
// kInputs times 16 inputs. When they are all that a weight tile is multiplied with, they can be
// kept for the next.
template <int kGroups, int kInputs>
struct Fragments {
  Words4 v[kInputs][kGroups];
};

// A lane's view of the operand that a weight tile is multiplied with: that of group 0 and the
// weight tile's first input is at `operand`, groups lie `stride` elements apart.
struct MmaOperand {
  const uint16_t* halves[2];
  int stride;

  __device__ __forceinline__ MmaOperand(const uint16_t* operand, int group_stride)
      : stride(group_stride) {
    const int lane = LaneIndex();
    halves[0] = operand + MmaOperandLane(lane / 4, lane % 4, 0) * 8;
    halves[1] = operand + MmaOperandLane(lane / 4, lane % 4, 1) * 8;
  }

  // Of the 16 inputs number `step`.
  __device__ __forceinline__ Words4 Load(int group, int step) const {
    return LoadAs<Words4>(halves[step % 2] + group * stride + step * 256);
  }
};

// Adds the products of a weight tile's outputs with kTogether times 16 inputs, from number `first`
// on. `keep`: those that `a` holds already. weight(tile, step): the lane's 8 weights of 8 outputs
// and 32 inputs.
template <int kGroups, int kTogether, int kTiles, typename Weight>
__device__ __forceinline__ void AddProducts(const MmaOperand& operand, int first, bool keep,
                                            const Weight& weight, Fragments<kGroups, kTogether>& a,
                                            Sums<kGroups> (&sums)[kTiles]) {
  if (!keep) {
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
#pragma unroll
      for (int m = 0; m < kGroups; ++m) a.v[i][m] = operand.Load(m, first + i);
    }
  }
  Words4 w[kTiles];
#pragma unroll
  for (int i = 0; i < kTogether; ++i) {
    const int half = (first + i) % 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      if (half == 0) w[tile] = weight(tile, (first + i) / 2);
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        const Words4& rows = a.v[i][m];
        Mma(sums[tile].parts[m][half], rows.w[0], rows.w[1], rows.w[2], rows.w[3],
            w[tile].w[2 * half], w[tile].w[2 * half + 1]);
      }
    }
  }
}

// The weight tiles that a block consumes: those of one array, then those of another. Every weight
// is used by one warp alone, so it goes from the level-two cache straight to the registers of the
// lane that multiplies with it. Two weight tiles are on their way while a third is consumed, word
// by word: a multiprocessor gets its share of the cache's bandwidth only with some 50 KB asked for.
template <int kWarps>
class WeightPrefetch {
 public:
  // A warp computes so many times 8 outputs of a weight tile, of all groups.
  static constexpr int kTiles = kWeightTileOutputs / 8 / kWarps;

  __device__ __forceinline__ WeightPrefetch(const uint16_t* weight_tiles, int count,
                                            const uint16_t* more_weight_tiles, int more_count)
      : next_(reinterpret_cast<const Words4*>(weight_tiles) + Own()),
        more_(reinterpret_cast<const Words4*>(more_weight_tiles) + Own()),
        until_more_(count),
        left_(count + more_count) {
    Refill(ahead_[0]);
  }

  // Asks for the second weight tile: apart from the first, so that what is needed earlier need not
  // queue behind it. To be called once, before the first product.
  __device__ __forceinline__ void FetchSecond() { Refill(ahead_[1]); }

  // Adds the products with the next weight tile. `operand`: of group 0 and the weight tile's first
  // input; groups lie `stride` elements apart. `again`: it is that of the weight tile before, and
  // so what is kept in `a`.
  template <int kGroups, int kTogether>
  __device__ __forceinline__ void AddWeightTile(const uint16_t* operand, int stride, bool again,
                                                Fragments<kGroups, kTogether>& a,
                                                Sums<kGroups> (&sums)[kTiles]) {
    // Registers have no index: the two weight tiles take turns in two copies of the code.
    if (second_) {
      AddAndRefill(operand, stride, again, ahead_[1], a, sums);
    } else {
      AddAndRefill(operand, stride, again, ahead_[0], a, sums);
    }
    second_ = !second_;
  }

 private:
  static constexpr int kSteps = kWeightTileInputs / 32;  // of the words of a lane
  static constexpr int kLaneWords = kTiles * kSteps;     // of a weight tile, 8 weights each

  // Where this lane's words begin in every weight tile.
  __device__ __forceinline__ static int Own() {
    return static_cast<int>(WarpIndex()) * (kLaneWords * kWarpSize) + static_cast<int>(LaneIndex());
  }

  __device__ __forceinline__ void Refill(Words4 (&weight_tile)[kLaneWords]) {
    if (until_more_ == 0) next_ = more_;
    if (left_ > 0) {
#pragma unroll
      for (int k = 0; k < kLaneWords; ++k) weight_tile[k] = LoadNcNoAllocate(next_ + k * kWarpSize);
    }
    next_ += kWeightTileSize / 8;
    --until_more_;
    --left_;
  }

  template <int kGroups, int kTogether>
  __device__ __forceinline__ void AddAndRefill(const uint16_t* operand, int stride, bool again,
                                               Words4 (&weight_tile)[kLaneWords],
                                               Fragments<kGroups, kTogether>& a,
                                               Sums<kGroups> (&sums)[kTiles]) {
    const MmaOperand rows(operand, stride);
    const auto weight = [&weight_tile](int tile, int step) {
      return weight_tile[tile * kSteps + step];
    };
#pragma unroll
    for (int first = 0; first < kWeightTileInputs / 16; first += kTogether) {
      AddProducts(rows, first, kTogether == kWeightTileInputs / 16 && again, weight, a, sums);
    }
    Refill(weight_tile);
  }

  const Words4* next_;  // weight tile to ask for
  const Words4* const more_;
  int until_more_;  // weight tiles of the first array to ask for
  int left_;        // weight tiles of both
  bool second_ = false;
  Words4 ahead_[2][kLaneWords];
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_WEIGHT_PREFETCH_CUH_
