// Loads all kernels when a device is opened, because nothing may be loaded while a graph is
// recorded.
#ifndef CHORALE_KERNELS_CUDA_RUNTIME_KERNEL_REGISTRY_H_
#define CHORALE_KERNELS_CUDA_RUNTIME_KERNEL_REGISTRY_H_

#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Loads all kernels and allows each of them `shared_bytes` of shared memory a block. Each of the
// functions below is defined in the file of its kernel.
ErrorCode LoadKernels(int shared_bytes);

ErrorCode LoadAttentionKernels(int shared_bytes);
ErrorCode LoadCompareRowsKernel(int shared_bytes);
ErrorCode LoadCopySetKernel(int shared_bytes);
ErrorCode LoadDivideCentresKernel(int shared_bytes);
ErrorCode LoadEmbedKernels(int shared_bytes);
ErrorCode LoadEncodeFeatureMeansKernel(int shared_bytes);
ErrorCode LoadEncodeAttentionKernels(int shared_bytes);
ErrorCode LoadHeadKernels(int shared_bytes);
ErrorCode LoadKeyImportanceKernels(int shared_bytes);
ErrorCode LoadMeasuringAttentionKernels(int shared_bytes);
ErrorCode LoadMergeKeysKernels(int shared_bytes);
ErrorCode LoadMixRowsKernel(int shared_bytes);
ErrorCode LoadPoolCellsKernel(int shared_bytes);
ErrorCode LoadReadColumnsKernel(int shared_bytes);
ErrorCode LoadMmaLayerKernels(int shared_bytes);
ErrorCode LoadWgmmaAttentionKernels(int shared_bytes);
ErrorCode LoadWgmmaLayerKernels(int shared_bytes);
ErrorCode LoadWgmmaSplitAttentionKernels(int shared_bytes);
ErrorCode LoadSpreadInCellsKernel(int shared_bytes);
ErrorCode LoadSpreadKeysKernel(int shared_bytes);
ErrorCode LoadSummariseColumnsKernel(int shared_bytes);
ErrorCode LoadTileLayerKernels(int shared_bytes);
ErrorCode LoadLayersKernel(int shared_bytes);
ErrorCode LoadUnfusedHeadKernel(int shared_bytes);
ErrorCode LoadUnfusedRowsKernels(int shared_bytes);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_RUNTIME_KERNEL_REGISTRY_H_
