// Dynamic shared memory, its addresses, and barriers of some warps of a block.
#ifndef CHORALE_KERNELS_CUDA_PTX_SMEM_CUH_
#define CHORALE_KERNELS_CUDA_PTX_SMEM_CUH_

#include <cstdint>

#include "kernels/cuda/ptx/random_delay.cuh"

namespace chorale::kernels::cuda {

// Aligned to 1,024 bytes: the swizzle of wgmma follows from addresses.
__device__ __forceinline__ char* DynamicSmem() {
  extern __shared__ __align__(1024) char shared[];
  return shared;
}

__device__ __forceinline__ uint32_t SmemAddress(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// bar.sync: __syncthreads for kThreads threads of the block, whole warps that all name the same
// barrier, 1 to 15.
template <int kThreads>
__device__ __forceinline__ void NamedBarrierSync(int barrier) {
  RandomDelay();
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_SMEM_CUH_
