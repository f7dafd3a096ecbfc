// Stands in for kernels/cuda/ptx/cp_async.cuh.
#ifndef CHORALE_KERNELS_CUDA_PTX_CP_ASYNC_CUH_
#define CHORALE_KERNELS_CUDA_PTX_CP_ASYNC_CUH_

#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {

inline void CpAsync16(void* to, const void* from) {
  RequireAligned<Words4>(to);
  RequireAligned<Words4>(from);
  emulator::CpAsync(to, from, 16);
}
inline void CpAsyncCommit() { emulator::CpAsyncCommit(); }
template <int kGroupsLeft>
void CpAsyncWait() {
  emulator::CpAsyncWait(kGroupsLeft);
}

inline void CpAsyncBulk(void* to, const void* from, int bytes, Mbarrier* barrier) {
  RequireAligned<Words4>(to);
  RequireAligned<Words4>(from);
  emulator::CpAsyncBulk(to, from, bytes, barrier);
}
inline void CpAsyncBulkOnce(void* to, const void* from, int bytes, Mbarrier* barrier) {
  CpAsyncBulk(to, from, bytes, barrier);
}
inline void PrefetchL2(const void* from, int bytes) {
  RequireAligned<Words4>(from);
  emulator::RequireAligned(reinterpret_cast<const void*>(static_cast<intptr_t>(bytes)), 16);
}
inline void FenceProxyAsync() {}
inline void FenceProxyAsyncGlobal() {}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_CP_ASYNC_CUH_
