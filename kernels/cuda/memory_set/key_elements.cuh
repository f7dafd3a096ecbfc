// Single elements of K and V in key blocks (layout/kv_cache.h).
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_KEY_ELEMENTS_CUH_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_KEY_ELEMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"

namespace chorale::kernels::cuda {

// Element `e` of a key and its value: of K if it is less than head_dim, else e - head_dim of V. The
// result is relative to the first key block of the head.
__device__ __forceinline__ int64_t KeyElementAt(int place, int e, int head_dim) {
  const int key = place % kKeyBlockKeys;
  return place / kKeyBlockKeys * KeyBlockSize(head_dim) +
         (e < head_dim ? KeyBlockKeyAt(key, e, head_dim)
                       : KeyBlockValueAt(key, e - head_dim, head_dim));
}

// bf16 element `at` of an array that an earlier kernel may have written.
__device__ __forceinline__ float LoadElement(const uint16_t* from, int64_t at) {
  const auto word = LoadCg<uint32_t>(from + at / 2 * 2);
  return at % 2 == 0 ? FirstBf16(word) : SecondBf16(word);
}

__device__ __forceinline__ void StoreElement(uint16_t* to, int64_t at, float value) {
  to[at] = static_cast<uint16_t>(PackBf16(value, value));
}

// Elements d to d + 7 of the K of a key. REQUIRES: d is a multiple of 8.
__device__ __forceinline__ void LoadKeyElements(const uint16_t* head, int place, int d,
                                                int head_dim, float (&elements)[8]) {
  const auto words = LoadCg<Words4>(head + KeyElementAt(place, d, head_dim));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    elements[2 * i] = FirstBf16(words.w[i]);
    elements[2 * i + 1] = SecondBf16(words.w[i]);
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_KEY_ELEMENTS_CUH_
