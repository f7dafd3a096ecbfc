// Matrices on their way through a block of the row kernel, slab by slab, and the sums of their
// products (layout.h, Weights).
#ifndef CHORALE_KERNELS_CUDA_WEIGHT_STREAM_CUH_
#define CHORALE_KERNELS_CUDA_WEIGHT_STREAM_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/layout.h"

namespace chorale::kernels::cuda {

inline constexpr int kRowThreads = kSlabWarps * kWarp;

// The slabs that a block consumes: those of one array, then those of another. They come through a
// ring of 2 to 4 stages in shared memory, of which all but one hold slabs ahead of the one in use:
// a multiprocessor gets its share of the level-two cache's bandwidth only with some 100 KB asked
// for. Each thread copies the very words that it takes, so no two threads wait for each other.
class WeightStream {
 public:
  // Copies that the thread has begun before are waited for by the first Take.
  __device__ __forceinline__ WeightStream(char* ring, int stages, const uint16_t* slabs, int count,
                                          const uint16_t* more_slabs, int more_count)
      : ring_(ring + Own()),
        end_(ring_ + stages * kSlabBytes),
        stages_(stages),
        next_(reinterpret_cast<const char*>(slabs) + Own()),
        more_(reinterpret_cast<const char*>(more_slabs) + Own()),
        left_(count),
        more_left_(more_count),
        taken_(ring_),
        fetched_(ring_) {
#pragma unroll 1
    for (int i = 1; i < stages; ++i) Fetch();
  }

  // A lane's share of the next slab: 8 inputs of each of 2 x 8 outputs, for each 32 inputs.
  __device__ __forceinline__ void Take(Words4 (&slab)[8]) {
    // What was asked for after this slab may still be on its way.
    if (stages_ == 4) {
      WaitForCopies<2>();
    } else if (stages_ == 3) {
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) slab[i] = LoadAs<Words4>(taken_ + i * kWarp * 16);
    taken_ = After(taken_);
    Fetch();  // into the stage of the slab before this one
  }

 private:
  static constexpr int kSlabBytes = kSlabSize * 2;

  // Where this thread's words begin in every slab.
  __device__ __forceinline__ static int Own() {
    return static_cast<int>(threadIdx.x / kWarp) * (kSlabBytes / kSlabWarps) +
           static_cast<int>(threadIdx.x % kWarp) * 16;
  }

  __device__ __forceinline__ char* After(char* stage) const {
    return stage + kSlabBytes == end_ ? ring_ : stage + kSlabBytes;
  }

  __device__ __forceinline__ void Fetch() {
    if (left_ == 0) {
      next_ = more_;
      left_ = more_left_;
      more_left_ = 0;
    }
    if (left_ > 0) {
#pragma unroll
      for (int i = 0; i < 8; ++i) CopyLater16(fetched_ + i * kWarp * 16, next_ + i * kWarp * 16);
      next_ += kSlabBytes;
      --left_;
    }
    CommitCopies();
    fetched_ = After(fetched_);
  }

  char* const ring_;
  char* const end_;
  const int stages_;
  const char* next_;
  const char* const more_;
  int left_;
  int more_left_;
  char* taken_;
  char* fetched_;
};

// Sums of this warp's 16 outputs of a slab, for the rows of kGroups groups: rows g and g + 8 of
// each group, outputs 8n + {2j, 2j+1}.
template <int kGroups>
struct Sums {
  float v[kGroups][2][4];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
#pragma unroll
      for (int i = 0; i < 8; ++i) v[m][i / 4][i % 4] = 0;
    }
  }

  // Adds the products with the next slab. `operand` is column 0 of the slab's inputs, row 0.
  __device__ __forceinline__ void AddSlab(const uint16_t* operand, int stride,
                                          WeightStream& weights) {
    const int lane = threadIdx.x % kWarp;
    Words4 slab[8];
    weights.Take(slab);
    operand += lane / 4 * stride + lane % 4 * 8;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        const uint16_t* from = operand + m * kGroupRows * stride + k * 32;
        const Words4 row = LoadAs<Words4>(from);
        const Words4 below = LoadAs<Words4>(from + 8 * stride);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const Words4& w = slab[2 * k + n];
          Mma(v[m][n], row.w[0], below.w[0], row.w[1], below.w[1], w.w[0], w.w[1]);
          Mma(v[m][n], row.w[2], below.w[2], row.w[3], below.w[3], w.w[2], w.w[3]);
        }
      }
    }
  }

  // Calls use(output) for each of the lane's two pairs of outputs, counted from the slab's first;
  // what that returns is called with (row, first, second) for every row of the lane.
  template <typename Use>
  __device__ __forceinline__ void ForEachPair(const Use& use) const {
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const auto use_row = use(warp * 16 + n * 8 + lane % 4 * 2);
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        const int row = m * kGroupRows + lane / 4;
        use_row(row, v[m][n][0], v[m][n][1]);
        use_row(row + 8, v[m][n][2], v[m][n][3]);
      }
    }
  }
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_WEIGHT_STREAM_CUH_
