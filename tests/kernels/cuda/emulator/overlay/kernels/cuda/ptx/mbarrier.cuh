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
inline void MbarrierInit(Mbarrier* arrivals, int members) {
  emulator::MbarrierInit(arrivals, members);
}
inline void MbarrierArrive(Mbarrier* arrivals) { emulator::MbarrierArrive(arrivals); }
inline void MbarrierArriveExpectTx(Mbarrier* arrivals, int bytes) {
  emulator::MbarrierExpectTx(arrivals, bytes);
  emulator::MbarrierArrive(arrivals);
}
inline void MbarrierWait(Mbarrier* arrivals, uint32_t parity) {
  emulator::MbarrierWait(arrivals, parity);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_MBARRIER_CUH_
