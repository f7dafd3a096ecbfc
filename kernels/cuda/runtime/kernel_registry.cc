#include "kernels/cuda/runtime/kernel_registry.h"

#include <initializer_list>

namespace chorale::kernels::cuda {

ErrorCode LoadKernels(int shared_bytes) {
  for (const auto load : {&LoadAttentionKernels,
                          &LoadCompareRowsKernel,
                          &LoadCopySetKernel,
                          &LoadDivideCentresKernel,
                          &LoadEmbedKernels,
                          &LoadEncodeAttentionKernels,
                          &LoadEncodeFeatureMeansKernel,
                          &LoadHeadKernels,
                          &LoadKeyImportanceKernels,
                          &LoadMeasuringAttentionKernels,
                          &LoadMergeKeysKernels,
                          &LoadMixRowsKernel,
                          &LoadPoolCellsKernel,
                          &LoadReadColumnsKernel,
                          &LoadMmaLayerKernels,
                          &LoadLayersKernel,
                          &LoadSpreadInCellsKernel,
                          &LoadSpreadKeysKernel,
                          &LoadTileLayerKernels,
                          &LoadWgmmaAttentionKernels,
                          &LoadWgmmaLayerKernels,
                          &LoadWgmmaSplitAttentionKernels,
                          &LoadSummariseColumnsKernel,
                          &LoadUnfusedHeadKernel,
                          &LoadUnfusedRowsKernels}) {
    if (const ErrorCode error = load(shared_bytes); error != 0) return error;
  }
  return 0;
}

}  // namespace chorale::kernels::cuda
