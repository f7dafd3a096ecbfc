// The grid, threads and dynamic shared memory of a launch.
#ifndef CHORALE_KERNELS_CUDA_RUNTIME_LAUNCH_SHAPE_H_
#define CHORALE_KERNELS_CUDA_RUNTIME_LAUNCH_SHAPE_H_

namespace chorale::kernels::cuda {

struct LaunchShape {
  int blocks_x = 1;
  int blocks_y = 1;
  int blocks_z = 1;
  int threads = 1;       // of a block
  int shared_bytes = 0;  // of a block
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_RUNTIME_LAUNCH_SHAPE_H_
