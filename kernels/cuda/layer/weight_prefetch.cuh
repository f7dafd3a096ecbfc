// Matrices on their way through a block of the row kernel, slab by slab, and the sums of their
// products (layout.h, Weights).
#ifndef CHORALE_KERNELS_CUDA_LAYER_WEIGHT_PREFETCH_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_WEIGHT_PREFETCH_CUH_

#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// Sums of 8 outputs of a slab, for the rows of kGroups groups: rows g and g + 8 of each group,
// outputs {2j, 2j+1}. In two parts, each over every other 16 inputs, so that one instruction need
// not wait for the one before it.
template <int kGroups>
struct Sums {
  float parts[kGroups][2][4] = {};

  // Of rows g or g + 8 of group m, output 2j or 2j+1: i is 2 (row / 8) + output % 2.
  __device__ __forceinline__ float Total(int m, int i) const {
    return parts[m][0][i] + parts[m][1][i];
  }
};

// Fragments of an operand that are loaded together, so that only the first is waited for: of
// kInputs times 16 inputs. When they are all that a slab is multiplied with, they can be kept for
// the next.
template <int kGroups, int kInputs>
struct Fragments {
  Words4 v[kInputs][kGroups];
};

// A lane's view of the operand that a slab is multiplied with: that of group 0 and the slab's first
// input is at `operand`, groups lie `stride` elements apart.
struct OperandLane {
  const uint16_t* halves[2];
  int stride;

  __device__ __forceinline__ OperandLane(const uint16_t* operand, int group_stride)
      : stride(group_stride) {
    const int lane = LaneIndex();
    halves[0] = operand + OperandPlace(lane / 4, lane % 4, 0) * 8;
    halves[1] = operand + OperandPlace(lane / 4, lane % 4, 1) * 8;
  }

  // Of the 16 inputs number `step`.
  __device__ __forceinline__ Words4 Load(int group, int step) const {
    return LoadAs<Words4>(halves[step % 2] + group * stride + step * 256);
  }
};

// Adds the products of a slab's outputs with kTogether times 16 inputs, from number `first` on.
// `keep`: those that `a` holds already. weight(tile, step): the lane's 8 weights of 8 outputs and
// 32 inputs.
template <int kGroups, int kTogether, int kTiles, typename Weight>
__device__ __forceinline__ void AddProducts(const OperandLane& operand, int first, bool keep,
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

// The slabs that a block consumes: those of one array, then those of another. Every weight is used
// by one warp alone, so it goes from the level-two cache straight to the registers of the lane that
// multiplies with it. Two slabs are on their way while a third is consumed, word by word: a
// multiprocessor gets its share of the cache's bandwidth only with some 50 KB asked for.
template <int kWarps>
class WeightStream {
 public:
  // A warp computes so many times 8 outputs of a slab, of all groups.
  static constexpr int kTiles = kSlabOutputs / 8 / kWarps;

  __device__ __forceinline__ WeightStream(const uint16_t* slabs, int count,
                                          const uint16_t* more_slabs, int more_count)
      : next_(reinterpret_cast<const Words4*>(slabs) + Own()),
        more_(reinterpret_cast<const Words4*>(more_slabs) + Own()),
        until_more_(count),
        left_(count + more_count) {
    Refill(ahead_[0]);
  }

  // Asks for the second slab: apart from the first, so that what is needed earlier need not queue
  // behind it. To be called once, before the first product.
  __device__ __forceinline__ void FetchSecond() { Refill(ahead_[1]); }

  // Adds the products with the next slab. `operand`: of group 0 and the slab's first input; groups
  // lie `stride` elements apart. `again`: it is that of the slab before, and so what is kept in
  // `a`.
  template <int kGroups, int kTogether>
  __device__ __forceinline__ void AddSlab(const uint16_t* operand, int stride, bool again,
                                          Fragments<kGroups, kTogether>& a,
                                          Sums<kGroups> (&sums)[kTiles]) {
    // Registers have no index: the two slabs take turns in two copies of the code.
    if (second_) {
      AddAndRefill(operand, stride, again, ahead_[1], a, sums);
    } else {
      AddAndRefill(operand, stride, again, ahead_[0], a, sums);
    }
    second_ = !second_;
  }

 private:
  static constexpr int kSteps = kSlabInputs / 32;     // of the words of a lane
  static constexpr int kLaneWords = kTiles * kSteps;  // of a slab, 8 weights each

  // Where this lane's words begin in every slab.
  __device__ __forceinline__ static int Own() {
    return static_cast<int>(WarpIndex()) * (kLaneWords * kWarpSize) + static_cast<int>(LaneIndex());
  }

  __device__ __forceinline__ void Refill(Words4 (&slab)[kLaneWords]) {
    if (until_more_ == 0) next_ = more_;
    if (left_ > 0) {
#pragma unroll
      for (int k = 0; k < kLaneWords; ++k) slab[k] = LoadNcNoAllocate(next_ + k * kWarpSize);
    }
    next_ += kSlabSize / 8;
    --until_more_;
    --left_;
  }

  template <int kGroups, int kTogether>
  __device__ __forceinline__ void AddAndRefill(const uint16_t* operand, int stride, bool again,
                                               Words4 (&slab)[kLaneWords],
                                               Fragments<kGroups, kTogether>& a,
                                               Sums<kGroups> (&sums)[kTiles]) {
    const OperandLane rows(operand, stride);
    const auto weight = [&slab](int tile, int step) { return slab[tile * kSteps + step]; };
#pragma unroll
    for (int first = 0; first < kSlabInputs / 16; first += kTogether) {
      AddProducts(rows, first, kTogether == kSlabInputs / 16 && again, weight, a, sums);
    }
    Refill(slab);
  }

  const Words4* next_;  // slab to ask for
  const Words4* const more_;
  int until_more_;  // slabs of the first array to ask for
  int left_;        // slabs of both
  bool second_ = false;
  Words4 ahead_[2][kLaneWords];
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_WEIGHT_PREFETCH_CUH_
