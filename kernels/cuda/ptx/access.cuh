// Loads and stores of 4, 8 and 16 bytes, and a counter. Pointers must be aligned to the size of the
// access.
#ifndef CHORALE_KERNELS_CUDA_PTX_ACCESS_CUH_
#define CHORALE_KERNELS_CUDA_PTX_ACCESS_CUH_

#include <cstdint>
#include <cstring>

#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"

namespace chorale::kernels::cuda {

template <typename Access, typename T>
__device__ __forceinline__ Access LoadAs(const T* from) {
  return *reinterpret_cast<const Access*>(from);
}

template <typename Access, typename T>
__device__ __forceinline__ void StoreAs(T* to, const Access& value) {
  *reinterpret_cast<Access*>(to) = value;
}

// The same for global and shared memory, certainly in one instruction: the compiler may divide
// StoreAs.
template <typename Access, typename T>
__device__ __forceinline__ void StoreGlobal(T* to, const Access& value) {
  static_assert(sizeof(Access) == 16);
  uint32_t w[4];
  memcpy(w, &value, sizeof(w));
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
}
template <typename Access, typename T>
__device__ __forceinline__ void StoreShared(T* to, const Access& value) {
  static_assert(sizeof(Access) == 16);
  uint32_t w[4];
  memcpy(w, &value, sizeof(w));
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(SmemAddress(to)), "r"(w[0]),
               "r"(w[1]), "r"(w[2]), "r"(w[3])
               : "memory");
}

// ld.global.cg: from L2, for data that an earlier kernel may have written (runtime/launch.h).
// "volatile" keeps the load after GridDepWait.
template <typename Access, typename T>
__device__ __forceinline__ Access LoadCg(const T* from) {
  static_assert(sizeof(Access) == 4 || sizeof(Access) % 8 == 0);
  constexpr int kWords = sizeof(Access) / 4;
  uint32_t words[kWords];
  const auto* at = reinterpret_cast<const uint32_t*>(from);
  if constexpr (kWords == 1) {
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(words[0]) : "l"(at));
  } else if constexpr (alignof(Access) == 16) {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[i]), "=r"(words[i + 1]), "=r"(words[i + 2]), "=r"(words[i + 3])
                   : "l"(at + i));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWords; i += 2) {
      asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];"
                   : "=r"(words[i]), "=r"(words[i + 1])
                   : "l"(at + i));
    }
  }
  Access value;
  memcpy(&value, words, sizeof(value));
  return value;
}

// Adds 1 to a counter in global memory, and returns its value before. What a block has read before
// a barrier that the thread has passed, precedes what any thread does that counts after it.
__device__ __forceinline__ int32_t AtomicIncrement(int32_t* counter) {
  int32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

// ld.global.nc.L1::no_allocate: read-only data that no other thread of the block will read.
__device__ __forceinline__ Words4 LoadNcNoAllocate(const Words4* from) {
  Words4 value;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(value.w[0]), "=r"(value.w[1]), "=r"(value.w[2]), "=r"(value.w[3])
      : "l"(from));
  return value;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_ACCESS_CUH_
