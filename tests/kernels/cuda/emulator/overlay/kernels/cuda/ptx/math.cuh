// Stands in for kernels/cuda/ptx/math.cuh.
#ifndef CHORALE_KERNELS_CUDA_PTX_MATH_CUH_
#define CHORALE_KERNELS_CUDA_PTX_MATH_CUH_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/layout/matrix.h"

namespace chorale::kernels::cuda {

inline uint32_t RoundToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (std::isnan(value)) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
inline uint32_t PackBf16(float first, float second) {
  return RoundToBf16(first) | RoundToBf16(second) << 16;
}

inline uint32_t PackFp16(float first, float second) {
  return ToFp16(first) | static_cast<uint32_t>(ToFp16(second)) << 16;
}
inline float FirstFp16(uint32_t word) { return FromFp16(static_cast<uint16_t>(word)); }
inline float SecondFp16(uint32_t word) { return FromFp16(static_cast<uint16_t>(word >> 16)); }

inline float Exp2(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;
}

inline float Rsqrt(float x) { return 1.0f / std::sqrt(x); }

inline float Rcp(float x) { return 1.0f / x; }

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_MATH_CUH_
