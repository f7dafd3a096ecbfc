// The GELU activation.
#ifndef CHORALE_KERNELS_CUDA_PTX_GELU_CUH_
#define CHORALE_KERNELS_CUDA_PTX_GELU_CUH_

#include "kernels/cuda/ptx/math.cuh"

namespace chorale::kernels::cuda {

// x/2 (1 + erf(x / sqrt 2)), the exact form, to 1e-6 max(1, |x|), without a branch. The tail of the
// normal distribution beyond |x| is 2^p(|x|): p is the polynomial of degree 5 with p(0) = -1 for
// which |x| 2^p(|x|) has the least maximum error, 6e-7. p falls for all |x|.
__device__ __forceinline__ float Gelu(float x) {
  const float size = fabsf(x);
  float p = fmaf(-4.8810212e-4f, size, 7.1987187e-3f);
  p = fmaf(p, size, -5.2146632e-2f);
  p = fmaf(p, size, -4.5959583e-1f);
  p = fmaf(p, size, -1.1510005f);
  return fmaf(-size, Exp2(fmaf(p, size, -1.0f)), fmaxf(x, 0.0f));
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_GELU_CUH_
