// Everything about the kernels that is asked of the device once, and never while a graph is
// recorded.
#ifndef CHORALE_KERNELS_CUDA_RUNTIME_KERNEL_REGISTRY_H_
#define CHORALE_KERNELS_CUDA_RUNTIME_KERNEL_REGISTRY_H_

#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Loads all kernels, and lets each use that much shared memory in a block. Called when a device is
// opened; each of the others is defined beside its kernels.
ErrorCode PrepareKernels(int shared_bytes);

ErrorCode PrepareAttention(int shared_bytes);
ErrorCode PrepareEmbed(int shared_bytes);
ErrorCode PrepareEncodeMeans(int shared_bytes);
ErrorCode PrepareHead(int shared_bytes);
ErrorCode PrepareMixRows(int shared_bytes);
ErrorCode PreparePoolCells(int shared_bytes);
ErrorCode PrepareReadColumns(int shared_bytes);
ErrorCode PrepareRowLayer(int shared_bytes);
ErrorCode PrepareRowProduct(int shared_bytes);
ErrorCode PrepareSummariseColumns(int shared_bytes);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_RUNTIME_KERNEL_REGISTRY_H_
