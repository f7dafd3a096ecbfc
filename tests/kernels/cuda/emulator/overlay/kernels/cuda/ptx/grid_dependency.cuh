// Stands in for kernels/cuda/ptx/grid_dependency.cuh: kernels run one after the other.
#ifndef CHORALE_KERNELS_CUDA_PTX_GRID_DEPENDENCY_CUH_
#define CHORALE_KERNELS_CUDA_PTX_GRID_DEPENDENCY_CUH_

namespace chorale::kernels::cuda {

inline void GridDepLaunch() {}
inline void GridDepWait() {}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_GRID_DEPENDENCY_CUH_
