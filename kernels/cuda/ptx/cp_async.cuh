// Asynchronous copies from global to shared memory: cp.async by a thread, cp.async.bulk (TMA) by
// the copy engine.
#ifndef CHORALE_KERNELS_CUDA_PTX_CP_ASYNC_CUH_
#define CHORALE_KERNELS_CUDA_PTX_CP_ASYNC_CUH_

#include "kernels/cuda/ptx/mbarrier.cuh"

namespace chorale::kernels::cuda {

// 16 bytes from global to shared memory, by and by.
__device__ __forceinline__ void CpAsync16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}
__device__ __forceinline__ void CpAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most that many groups of this thread's copies are still on their way.
template <int kGroupsLeft>
__device__ __forceinline__ void CpAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
}

// From global memory, by and by; both sides and `bytes` are multiples of 16. Bytes count as
// arrived in the phase that is current when they come.
__device__ __forceinline__ void CpAsyncBulk(void* to, const void* from, int bytes,
                                            Mbarrier* arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SmemAddress(to)),
      "l"(from), "r"(bytes), "r"(SmemAddress(arrivals))
      : "memory");
#endif
}
// What this thread has written to shared memory is there for what is not a thread: products of a
// warpgroup, and copies in bulk.
__device__ __forceinline__ void FenceProxyAsync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_CP_ASYNC_CUH_
