// griddepcontrol: programmatic dependent launch (runtime/launch.h).
#ifndef CHORALE_KERNELS_CUDA_PTX_GRID_DEPENDENCY_CUH_
#define CHORALE_KERNELS_CUDA_PTX_GRID_DEPENDENCY_CUH_

namespace chorale::kernels::cuda {

// A kernel may begin while the one ahead of it on the stream still runs: launch.h says what follows
// from that. A kernel says at its start that the next one may, and waits before it touches what
// another kernel has written, or may still read.
__device__ __forceinline__ void GridDepLaunch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void GridDepWait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_GRID_DEPENDENCY_CUH_
