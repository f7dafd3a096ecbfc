// Launching a kernel.
//
// Kernels take one parameter, a plain struct. Every launch returns an error code, which the caller
// hands to Status (status.h); no error is left behind for a later call to find.
//
// Kernels overlap: from compute capability 9.0 on, a kernel's blocks may begin as soon as all
// blocks of the one ahead on the stream have begun (GridDepLaunch), so that several kernels of a
// step can be on the device at the same time. Why that is right:
//
//   1. Every thread of every kernel calls GridDepWait, and no kernel returns before it. So a
//      kernel ends only after the one ahead has ended, and, by induction, behind GridDepWait
//      all earlier kernels have ended and what they wrote is visible: nothing that a kernel writes
//      can meet a reader or a writer of an earlier one, however far back.
//   2. What an earlier kernel may have written is read by LoadCg, CpAsync16 or CpAsyncBulk,
//      which the compiler keeps behind GridDepWait and which read the level-two cache: a
//      multiprocessor's own cache may still hold what an overlapping kernel read there before. What
//      only copies write (the cells of a table, what was learnt of its columns) may be read by
//      plain loads: a copy begins when all kernels ahead have ended, and kernels behind it begin
//      when it has.
//   3. Ahead of GridDepWait, kernels read only what no kernel writes (weights, and of a tile
//      what is fixed when the host uploads it), and keys and values of a context that was complete
//      before its tiles were uploaded.
//
// LoadKernel is called once for each kernel when a device is opened, so that nothing is loaded
// or set while a graph is recorded.
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
  // A multiprocessor divides its memory between cache and shared memory anew only when it is idle:
  // kernels that want it divided otherwise could not overlap.
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
