#ifndef CHORALE_KERNELS_CUDA_GELU_CUH_
#define CHORALE_KERNELS_CUDA_GELU_CUH_

#include "kernels/cuda/device.cuh"

namespace chorale::kernels::cuda {

// x/2 (1 + erf(x / sqrt 2)), the exact form.
__device__ __forceinline__ float Gelu(float x) {
  return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_GELU_CUH_
