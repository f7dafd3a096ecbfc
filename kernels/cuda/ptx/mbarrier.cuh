// mbarrier: counts arrivals of threads, and bytes of bulk copies, in phases.
#ifndef CHORALE_KERNELS_CUDA_PTX_MBARRIER_CUH_
#define CHORALE_KERNELS_CUDA_PTX_MBARRIER_CUH_

#include <cstdint>

#include "kernels/cuda/ptx/smem.cuh"

namespace chorale::kernels::cuda {

// Counts arrivals in shared memory, and bytes that are copied there in bulk (PTX: mbarrier). A
// phase is over when all members have come and all bytes that are expected; the next begins at
// once. The first phase has parity 0. From compute capability 9.0 on.
struct alignas(8) Mbarrier {
  uint64_t state;
};

// By one thread, before any other touches it: the block has to be synchronised in between.
__device__ __forceinline__ void MbarrierInit(Mbarrier* arrivals, int members) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SmemAddress(arrivals)), "r"(members)
               : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// What this thread did before is there for those who wait for the phase.
__device__ __forceinline__ void MbarrierArrive(Mbarrier* arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SmemAddress(arrivals)) : "memory");
#endif
}
// Arrives once, and has the phase wait for that many bytes more.
__device__ __forceinline__ void MbarrierArriveExpectTx(Mbarrier* arrivals, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SmemAddress(arrivals)),
      "r"(bytes)
      : "memory");
#endif
}
// Until the phase of that parity is over; of the phase before the first, whose parity is 1, at
// once.
__device__ __forceinline__ void MbarrierWait(Mbarrier* arrivals, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@over bra done;\n"
      "bra again;\n"
      "done:\n"
      "}" ::"r"(SmemAddress(arrivals)),
      "r"(parity)
      : "memory");
#endif
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_MBARRIER_CUH_
