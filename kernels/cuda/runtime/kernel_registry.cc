#include "kernels/cuda/runtime/kernel_registry.h"

#include <initializer_list>

namespace chorale::kernels::cuda {

ErrorCode PrepareKernels(int shared_bytes) {
  for (const auto prepare : {&PrepareAttention, &PrepareEmbed, &PrepareEncodeMeans, &PrepareHead,
                             &PrepareMixRows, &PreparePoolCells, &PrepareReadColumns,
                             &PrepareRowLayer, &PrepareRowProduct, &PrepareSummariseColumns}) {
    if (const ErrorCode error = prepare(shared_bytes); error != 0) return error;
  }
  return 0;
}

}  // namespace chorale::kernels::cuda
