// Launching a kernel.
//
// Kernels take one parameter, a plain struct. Every launch returns an error code, which the caller
// passes to ToStatus (status.h).
//
// Kernels overlap (programmatic dependent launch): from compute capability 9.0 on, a kernel's
// blocks may start as soon as all blocks of the previous kernel on the stream have called
// GridDepLaunch, so several kernels of a step can be on the device at once. Why that is correct:
//
//   1. Every thread of every kernel calls GridDepWait, and no kernel returns before it. So a kernel
//      ends only after the previous one has ended. By induction, after GridDepWait all earlier
//      kernels have ended and their writes are visible: no write of a kernel races with a read or a
//      write of an earlier one.
//   2. Kernels read data that an earlier kernel may have written with LoadCg, CpAsync16 or
//      CpAsyncBulk: the compiler does not move these before GridDepWait, and they read L2, whereas
//      L1 may hold stale data that an overlapping kernel read earlier. Data that only copies write
//      (cells of a table, inducing points) may be read by plain loads: a copy starts when all
//      previous kernels have ended, and the next kernels start when it has ended.
//   3. Before GridDepWait, kernels read only data that no kernel writes: weights, the fields of a
//      tile that are fixed at upload, and K and V of a context that was complete before its tiles
//      were uploaded.
//   4. A GEMM of cuBLASLt (gemm/gemm_library.h) is launched without this attribute: it
//      starts when all earlier kernels have ended, and a kernel after it that has called
//      GridDepWait sees what it wrote. So it is one more kernel of the induction. A version of the
//      library that let its kernels overlap would have to wait in the same way; the determinism
//      suite on a GPU (wide models) is what would show that it does not.
//
// LoadKernel is called once for each kernel when a device is opened, so that nothing is loaded or
// set while a graph is recorded.
#ifndef CHORALE_KERNELS_CUDA_RUNTIME_LAUNCH_H_
#define CHORALE_KERNELS_CUDA_RUNTIME_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/runtime/launch_shape.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

template <typename Params>
ErrorCode LoadKernel(void (*kernel)(Params), int shared_bytes) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  const cudaError_t error =
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != cudaSuccess) return error;
  // A multiprocessor changes its split between L1 and shared memory only when it is idle: kernels
  // with different splits could not overlap.
  return cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}

template <typename Params>
ErrorCode Launch(void (*kernel)(Params), const LaunchShape& shape, Stream stream, Params params) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(shape.blocks_x, shape.blocks_y, shape.blocks_z);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = KernelsOverlap() ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, params);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_RUNTIME_LAUNCH_H_
