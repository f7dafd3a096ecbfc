// Pairs of bfloat16 in one 32-bit word.
#ifndef CHORALE_KERNELS_CUDA_PTX_BF16_CUH_
#define CHORALE_KERNELS_CUDA_PTX_BF16_CUH_

#include <cstdint>

namespace chorale::kernels::cuda {

// The first and the second of two bfloat16 in one word.
__device__ __forceinline__ float FirstBf16(uint32_t word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float SecondBf16(uint32_t word) {
  return __uint_as_float(word & 0xffff0000u);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_BF16_CUH_
