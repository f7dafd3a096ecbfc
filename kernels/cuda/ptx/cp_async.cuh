// Asynchronous copies from global to shared memory: cp.async by a thread, cp.async.bulk (TMA) by
// the copy engine.
#ifndef CHORALE_KERNELS_CUDA_PTX_CP_ASYNC_CUH_
#define CHORALE_KERNELS_CUDA_PTX_CP_ASYNC_CUH_

#include "kernels/cuda/ptx/mbarrier.cuh"

namespace chorale::kernels::cuda {

// cp.async: copies 16 bytes from global to shared memory.
__device__ __forceinline__ void CpAsync16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}
__device__ __forceinline__ void CpAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most kGroupsLeft of this thread's committed groups are incomplete.
template <int kGroupsLeft>
__device__ __forceinline__ void CpAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
}

// cp.async.bulk: copies `bytes` from global to shared memory and signals `barrier` (complete_tx).
// Both addresses and `bytes` are multiples of 16. From compute capability 9.0 on.
__device__ __forceinline__ void CpAsyncBulk(void* to, const void* from, int bytes,
                                            Mbarrier* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SmemAddress(to)),
      "l"(from), "r"(bytes), "r"(SmemAddress(barrier))
      : "memory");
#endif
}
// CpAsyncBulk of what is read only once: in L2 it gives way before everything else.
__device__ __forceinline__ void CpAsyncBulkOnce(void* to, const void* from, int bytes,
                                                Mbarrier* barrier) {
#if __CUDA_ARCH__ >= 900
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(SmemAddress(to)),
      "l"(from), "r"(bytes), "r"(SmemAddress(barrier)), "l"(policy)
      : "memory");
#endif
}
// cp.async.bulk.prefetch: starts to bring `bytes` of global memory into L2; likewise.
__device__ __forceinline__ void PrefetchL2(const void* from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}
// fence.proxy.async: makes this thread's writes to shared memory visible to the async proxy (wgmma,
// bulk copies).
__device__ __forceinline__ void FenceProxyAsync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// The same of its writes to global memory.
__device__ __forceinline__ void FenceProxyAsyncGlobal() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_CP_ASYNC_CUH_
