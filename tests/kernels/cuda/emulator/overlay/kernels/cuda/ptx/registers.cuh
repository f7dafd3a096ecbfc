// Stands in for kernels/cuda/ptx/registers.cuh: there is nothing to control.
#ifndef CHORALE_KERNELS_CUDA_PTX_REGISTERS_CUH_
#define CHORALE_KERNELS_CUDA_PTX_REGISTERS_CUH_

namespace chorale::kernels::cuda {

template <typename T>
void PinValue(T&) {}

template <int kRegisters>
void RegDealloc() {}
template <int kRegisters>
void RegAlloc() {}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_REGISTERS_CUH_
