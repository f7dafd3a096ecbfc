// Stands in for kernels/cuda/ptx/smem.cuh.
#ifndef CHORALE_KERNELS_CUDA_PTX_SMEM_CUH_
#define CHORALE_KERNELS_CUDA_PTX_SMEM_CUH_

#include <cstdint>

#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {

inline char* DynamicSmem() { return emulator::DynamicSmem(); }

inline uint32_t SmemAddress(const void* at) {
  return static_cast<uint32_t>(static_cast<const char*>(at) - emulator::DynamicSmem());
}

template <int kThreads>
void NamedBarrierSync(int barrier) {
  emulator::NamedBarrierSync(barrier, kThreads);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_SMEM_CUH_
