// How the server divides the GPU's memory when it starts.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DEVICE_MEMORY_BUDGET_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DEVICE_MEMORY_BUDGET_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace chorale::cuda {

// All of it is allocated at once. A size of 0 means a share, see ShareOutMemory.
struct MemoryBudget {
  int64_t context_pool_bytes = 0;
  int64_t buffer_pool_bytes = 0;
  int64_t encode_pool_bytes = 0;
  int64_t weights_bytes = 0;
  int64_t workspace_bytes = 0;  // intermediate results of one launch
  // Pinned host memory that evicted contexts are copied to. 0: none, they are dropped.
  int64_t host_context_pool_bytes = 0;
  // Of the GPU's free memory: divided into the shares. The rest stays free, for code and graphs.
  double memory_fraction = 0.94;
};

// Replaces the sizes of 0. Encoding, weights and workspace get a sixteenth of the fraction each, at
// most 512 MiB. Of the rest of the fraction contexts get two thirds and buffers one third; if one
// of the two has a size, the other gets all that is left. Sizes that were set are kept.
//
// InvalidArgument for a negative size or a fraction outside (0, 1]; ResourceExhausted, with the
// numbers, if the sum is more than `free_bytes` or nothing is left for a share.
absl::StatusOr<MemoryBudget> ShareOutMemory(const MemoryBudget& asked, int64_t free_bytes);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DEVICE_MEMORY_BUDGET_H_
