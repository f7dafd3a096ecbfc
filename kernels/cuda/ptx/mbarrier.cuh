// mbarrier: barriers in shared memory for threads and bulk copies.
#ifndef CHORALE_KERNELS_CUDA_PTX_MBARRIER_CUH_
#define CHORALE_KERNELS_CUDA_PTX_MBARRIER_CUH_

#include <cstdint>

#include "kernels/cuda/ptx/random_delay.cuh"
#include "kernels/cuda/ptx/smem.cuh"

namespace chorale::kernels::cuda {

// Counts arrivals of threads, and bytes of bulk copies. A phase completes when all its expected
// arrivals and bytes have arrived; the next phase then begins. The first phase has parity 0. From
// compute capability 9.0 on.
struct alignas(8) Mbarrier {
  uint64_t state;
};

// Called by one thread, before a barrier of the block. `count` arrivals complete a phase.
__device__ __forceinline__ void MbarrierInit(Mbarrier* barrier, int count) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SmemAddress(barrier)), "r"(count)
               : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// Release semantics: writes before it are visible to threads that wait for the phase.
__device__ __forceinline__ void MbarrierArrive(Mbarrier* barrier) {
  RandomDelay();
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SmemAddress(barrier)) : "memory");
#endif
}
// Arrives once and makes the phase expect `bytes` more (expect_tx).
__device__ __forceinline__ void MbarrierArriveExpectTx(Mbarrier* barrier, int bytes) {
  RandomDelay();
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SmemAddress(barrier)),
               "r"(bytes)
               : "memory");
#endif
}
// Waits until the phase of `parity` has completed. Parity 1 of a new barrier returns immediately.
__device__ __forceinline__ void MbarrierWait(Mbarrier* barrier, uint32_t parity) {
  RandomDelay();
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@over bra done;\n"
      "bra again;\n"
      "done:\n"
      "}" ::"r"(SmemAddress(barrier)),
      "r"(parity)
      : "memory");
#endif
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_MBARRIER_CUH_
