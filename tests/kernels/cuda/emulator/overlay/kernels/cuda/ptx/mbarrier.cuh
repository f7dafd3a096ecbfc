// Stands in for kernels/cuda/ptx/mbarrier.cuh.
#ifndef CHORALE_KERNELS_CUDA_PTX_MBARRIER_CUH_
#define CHORALE_KERNELS_CUDA_PTX_MBARRIER_CUH_

#include <cstdint>

#include "kernels/cuda/ptx/smem.cuh"
#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {

struct alignas(8) Mbarrier {
  uint64_t state;
};
inline void MbarrierInit(Mbarrier* barrier, int members) {
  emulator::MbarrierInit(barrier, members);
}
inline void MbarrierArrive(Mbarrier* barrier) { emulator::MbarrierArrive(barrier); }
inline void MbarrierArriveExpectTx(Mbarrier* barrier, int bytes) {
  emulator::MbarrierExpectTx(barrier, bytes);
  emulator::MbarrierArrive(barrier);
}
inline void MbarrierWait(Mbarrier* barrier, uint32_t parity) {
  emulator::MbarrierWait(barrier, parity);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_MBARRIER_CUH_
