// Stands in for kernels/cuda/runtime/launch.h: launches in the emulator.
#ifndef CHORALE_KERNELS_CUDA_RUNTIME_LAUNCH_H_
#define CHORALE_KERNELS_CUDA_RUNTIME_LAUNCH_H_

#include "kernels/cuda/runtime/launch_shape.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {

template <typename Params>
ErrorCode LoadKernel(void (*kernel)(Params), int shared_bytes) {
  return 0;
}

template <typename Params>
ErrorCode Launch(void (*kernel)(Params), const LaunchShape& shape, Stream stream, Params params) {
  if (shape.shared_bytes > emulator::kSharedBytes) return 1;  // cudaErrorInvalidValue
  emulator::Run({shape.blocks_x, shape.blocks_y, shape.blocks_z}, shape.threads, shape.shared_bytes,
                [=] { kernel(params); });
  return 0;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_RUNTIME_LAUNCH_H_
