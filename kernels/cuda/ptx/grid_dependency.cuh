// griddepcontrol: programmatic dependent launch (runtime/launch.h).
#ifndef CHORALE_KERNELS_CUDA_PTX_GRID_DEPENDENCY_CUH_
#define CHORALE_KERNELS_CUDA_PTX_GRID_DEPENDENCY_CUH_

namespace chorale::kernels::cuda {

// Launch: lets the next kernel on the stream start. Wait: returns when all earlier kernels have
// completed and their writes are visible. runtime/launch.h states the rules. No effect below sm_90.
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
