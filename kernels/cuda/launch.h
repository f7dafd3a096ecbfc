// Launching a kernel: on a GPU when a file is compiled by nvcc, else in the emulator.
//
// Kernels take one parameter, a plain struct. Every launch returns an error code, which the caller
// hands to Status (status.h); no error is left behind for a later call to find.
//
// State: what is compiled by nvcc has not run on a GPU yet. Its logic is held on the emulator.
#ifndef CHORALE_KERNELS_CUDA_LAUNCH_H_
#define CHORALE_KERNELS_CUDA_LAUNCH_H_

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#else
#include "kernels/cuda/emulator.h"
#endif

#include "kernels/cuda/stream.h"

namespace chorale::kernels::cuda {

struct LaunchShape {
  int blocks_x = 1;
  int blocks_y = 1;
  int blocks_z = 1;
  int threads = 1;
  int shared_bytes = 0;
};

#ifdef __CUDACC__

template <typename Params>
ErrorCode Launch(void (*kernel)(Params), const LaunchShape& shape, Stream stream, Params params) {
  constexpr int kAlwaysAllowed = 48 * 1024;
  if (shape.shared_bytes > kAlwaysAllowed) {
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
    if (error != cudaSuccess) return error;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(shape.blocks_x, shape.blocks_y, shape.blocks_z);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  // From compute capability 9.0 on, a kernel may begin before the one ahead has ended: see
  // LetNextBegin and WaitForPrevious in device.cuh.
  static const bool overlaps = [] {
    int major = 0;
    return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
           major >= 9;
  }();
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, params);
}

#else

template <typename Params>
ErrorCode Launch(void (*kernel)(Params), const LaunchShape& shape, Stream stream, Params params) {
  emulator::Run({shape.blocks_x, shape.blocks_y, shape.blocks_z}, shape.threads, shape.shared_bytes,
                [=] { kernel(params); });
  return 0;
}

#endif

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAUNCH_H_
