// The GELU activation.
#ifndef CHORALE_KERNELS_CUDA_PTX_GELU_CUH_
#define CHORALE_KERNELS_CUDA_PTX_GELU_CUH_

#include "kernels/cuda/ptx/math.cuh"

namespace chorale::kernels::cuda {

// x/2 (1 + erf(x / sqrt 2)), the exact form, to 1e-6 max(1, |x|): the tail of the normal
// distribution beyond |x| by formula 7.1.26 of Abramowitz and Stegun, without a branch.
__device__ __forceinline__ float Gelu(float x) {
  const float size = fabsf(x);
  const float t = Rcp(fmaf(0.3275911f * 0.70710678f, size, 1.0f));
  float sum = fmaf(1.061405429f, t, -1.453152027f);
  sum = fmaf(sum, t, 1.421413741f);
  sum = fmaf(sum, t, -0.284496736f);
  sum = fmaf(sum, t, 0.254829592f);
  const float tail = 0.5f * sum * t * Exp2(-0.72134752f * size * size);  // e^(-x^2 / 2)
  return x * (x < 0 ? tail : 1.0f - tail);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_GELU_CUH_
