// Control over registers: how many a warpgroup has, and when a value is computed.
#ifndef CHORALE_KERNELS_CUDA_PTX_REGISTERS_CUH_
#define CHORALE_KERNELS_CUDA_PTX_REGISTERS_CUH_

namespace chorale::kernels::cuda {

// Has the compiler compute a number or an address here, ahead of a wait, rather than behind it
// where it is used.
template <typename T>
__device__ __forceinline__ void PinValue(T& value) {
  if constexpr (sizeof(T) == 4) {
    asm volatile("" : "+r"(value));
  } else {
    asm volatile("" : "+l"(value));
  }
}

// Registers that every thread of four neighbouring warps gives up, or gets of what others gave up:
// multiples of 8, the kernel's own number for all that is given and taken in between. Only where
// the architecture is known: elsewhere threads stay as they are.
template <int kRegisters>
__device__ __forceinline__ void RegDealloc() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void RegAlloc() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_REGISTERS_CUH_
