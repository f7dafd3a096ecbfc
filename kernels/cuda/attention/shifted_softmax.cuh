// The softmax of a split's keys: plain, or shifted by a maximum.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_SHIFTED_SOFTMAX_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_SHIFTED_SOFTMAX_CUH_

#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// Whether a row's weights may be 2^score, as if it had no large scores, by their sum l. Then
// nothing that counts is lost: weights that are flushed to zero are below 2^-126 each, so those of
// 65,536 keys together are below 2^-46 of l; and o is finite for values below 2^63. Scores come
// times log2(e): in units of the softmax, rows whose largest score is beyond about 40, or below
// -50, do not pass. False if l is NaN.
__device__ __forceinline__ bool IsPlainSum(float l) { return l >= 0x1p-64f && l <= 0x1p64f; }

// The softmax of a lane's rows where their maxima are subtracted. m is raised only where a weight
// would exceed 2^kSlack, a few times in a row's life: for most key blocks lanes do not exchange
// maxima, and sums are not scaled. Whether m is raised depends on the row alone; where it is raised
// for some rows of a warp, l and o of the others are multiplied by 1.
struct ShiftedSoftmax {
  static constexpr float kSlack = 8;

  float m[2];      // of the rows g and g + 8; the same in the four lanes of a row
  float l[2];      // this lane's share
  float limit[2];  // m is raised to larger scores
  float scale[2];  // see Raise

  // Before a sweep, in which m stays 0 for a row that is `plain`.
  __device__ __forceinline__ void Clear(const bool (&plain)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      m[half] = plain[half] ? 0.0f : -INFINITY;
      limit[half] = plain[half] ? INFINITY : -INFINITY;
      l[half] = 0;
    }
  }

  // scores -= m, where m is raised if it must be. Returns whether sums must be scaled, in any lane
  // of the warp.
  template <int kScores>
  __device__ __forceinline__ bool Shift(float (&scores)[kScores]) {
    float largest[2] = {scores[0], scores[2]};
#pragma unroll
    for (int i = 0; i < kScores; i += 2) {
      float& row = largest[i % 4 / 2];
      row = fmaxf(row, fmaxf(scores[i], scores[i + 1]));
    }
    const bool raise = largest[0] > limit[0] || largest[1] > limit[1];
    const bool raised = __ballot_sync(kAllLanes, raise) != 0;
    if (raised) Raise(largest);
#pragma unroll
    for (int i = 0; i < kScores; ++i) scores[i] -= m[i % 4 / 2];
    return raised;
  }

  // Raises m where `largest`, of this lane's scores, makes it too small; l and scale follow.
  __device__ __forceinline__ void Raise(const float (&largest)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float of_row = MaxOverLanes<4>(largest[half]);
      scale[half] = 1;
      if (of_row > limit[half]) {
        scale[half] = Exp2(m[half] - of_row);
        m[half] = of_row;
        limit[half] = of_row + kSlack;
      }
      l[half] *= scale[half];
    }
  }

  // scores = 2^scores, added to l.
  template <int kScores>
  __device__ __forceinline__ void Exponentiate(float (&scores)[kScores]) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      scores[i] = Exp2(scores[i]);
      l[i % 4 / 2] += scores[i];
    }
  }
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_SHIFTED_SOFTMAX_CUH_
