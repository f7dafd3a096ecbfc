// Approximate arithmetic of the special function units, and conversion to bfloat16 and float16.
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

// Two float16 in one word, rounded to nearest even, and each of them.
__device__ __forceinline__ uint32_t PackFp16(float first, float second) {
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
__device__ __forceinline__ float FirstFp16(uint32_t word) {
  float value;
  asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, a; }" : "=f"(value) : "r"(word));
  return value;
}
__device__ __forceinline__ float SecondFp16(uint32_t word) {
  float value;
  asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, b; }" : "=f"(value) : "r"(word));
  return value;
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
