// Matrices on their way through a block of the row kernel, slab by slab, and the sums of their
// products (layout.h, Weights).
#ifndef CHORALE_KERNELS_CUDA_WEIGHT_STREAM_CUH_
#define CHORALE_KERNELS_CUDA_WEIGHT_STREAM_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/layout.h"

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

// Fragments of an operand that are loaded together, so that only the first is waited for. Of one
// group they are all that a slab is multiplied with, and can be kept for the next slab.
template <int kGroups>
struct Fragments {
  static constexpr int kInputs = 8 / kGroups;  // times 16 inputs
  Words4 v[kInputs][kGroups];
};

// Adds the products of a slab's outputs with an operand of kGroups groups: that of group 0 and the
// slab's first input is at `operand`, groups lie `stride` elements apart. `again`: the operand is
// that of the slab before, and so what is kept of it in `a`. weight(tile, step): the lane's 8
// weights of 8 outputs and 32 inputs.
template <int kGroups, int kTiles, typename Weight>
__device__ __forceinline__ void AddProducts(const uint16_t* operand, int stride, bool again,
                                            const Weight& weight, Fragments<kGroups>& a,
                                            Sums<kGroups> (&sums)[kTiles]) {
  constexpr int kTogether = Fragments<kGroups>::kInputs;
  constexpr int kInputs = kSlabInputs / 16;
  const int lane = threadIdx.x % kWarp;
  const uint16_t* const halves[2] = {operand + OperandPlace(lane / 4, lane % 4, 0) * 8,
                                     operand + OperandPlace(lane / 4, lane % 4, 1) * 8};
  Words4 w[kTiles];
#pragma unroll
  for (int first = 0; first < kInputs; first += kTogether) {
    if (kTogether < kInputs || !again) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
#pragma unroll
        for (int m = 0; m < kGroups; ++m) {
          a.v[i][m] = LoadAs<Words4>(halves[(first + i) % 2] + m * stride + (first + i) * 256);
        }
      }
    }
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
  static constexpr int kParts = 1;
  static constexpr int kBusyWarps = kWarps;

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

  // There is no warp that is not busy.
  __device__ __forceinline__ void Skip(int slabs) {}

  // Adds the products with the next slab, as AddProducts.
  template <int kGroups>
  __device__ __forceinline__ void AddSlab(const uint16_t* operand, int stride, bool again,
                                          Fragments<kGroups>& a, Sums<kGroups> (&sums)[kTiles]) {
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
    return static_cast<int>(threadIdx.x / kWarp) * (kLaneWords * kWarp) +
           static_cast<int>(threadIdx.x % kWarp);
  }

  __device__ __forceinline__ void Refill(Words4 (&slab)[kLaneWords]) {
    if (until_more_ == 0) next_ = more_;
    if (left_ > 0) {
#pragma unroll
      for (int k = 0; k < kLaneWords; ++k) slab[k] = LoadOnce(next_ + k * kWarp);
    }
    next_ += kSlabSize / 8;
    --until_more_;
    --left_;
  }

  template <int kGroups>
  __device__ __forceinline__ void AddAndRefill(const uint16_t* operand, int stride, bool again,
                                               Words4 (&slab)[kLaneWords], Fragments<kGroups>& a,
                                               Sums<kGroups> (&sums)[kTiles]) {
    AddProducts(
        operand, stride, again, [&slab](int tile, int step) { return slab[tile * kSteps + step]; },
        a, sums);
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

#endif  // CHORALE_KERNELS_CUDA_WEIGHT_STREAM_CUH_
