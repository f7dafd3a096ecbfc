// Approximate arithmetic of the special function units, and conversion to bfloat16.
#ifndef CHORALE_KERNELS_CUDA_PTX_MATH_CUH_
#define CHORALE_KERNELS_CUDA_PTX_MATH_CUH_

#include <cstdint>

namespace chorale::kernels::cuda {

// Two bfloat16 in one word, rounded to nearest even.
__device__ __forceinline__ uint32_t PackBf16(float first, float second) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

// 2^x to about 2 units in the last place; 0 for -inf, and for results below 2^-126.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / sqrt(x) to about 2 units in the last place, for normal x > 0.
__device__ __forceinline__ float Rsqrt(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x to about 1 unit in the last place, for normal x.
__device__ __forceinline__ float Rcp(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_MATH_CUH_
