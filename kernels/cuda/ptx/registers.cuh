// Control over registers: how many a warpgroup has, and when a value is computed.
#ifndef CHORALE_KERNELS_CUDA_PTX_REGISTERS_CUH_
#define CHORALE_KERNELS_CUDA_PTX_REGISTERS_CUH_

namespace chorale::kernels::cuda {

// Forces the compiler to compute `value` here, ahead of a wait, rather than at its first use.
template <typename T>
__device__ __forceinline__ void PinValue(T& value) {
  if constexpr (sizeof(T) == 4) {
    asm volatile("" : "+r"(value));
  } else {
    asm volatile("" : "+l"(value));
  }
}

// setmaxnreg: lowers (dec) or raises (inc) the per-thread register limit of a warpgroup to
// kRegisters, a multiple of 8. All four warps must execute it. No effect below sm_90a.
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
