// Divides the GPU's memory when the server starts.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DEVICE_MEMORY_BUDGET_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DEVICE_MEMORY_BUDGET_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace chorale::cuda {

// The sizes of all parts, which are allocated together. A size of 0 requests a share; see
// ShareOutMemory.
struct MemoryBudget {
  int64_t context_pool_bytes = 0;
  int64_t buffer_pool_bytes = 0;
  int64_t encode_pool_bytes = 0;
  int64_t weights_bytes = 0;
  int64_t workspace_bytes = 0;  // intermediate results of one launch
  // Pinned host memory for copies of evicted contexts. 0: evicted contexts are dropped.
  int64_t host_context_pool_bytes = 0;
  // The part of the GPU's free memory that is divided into the shares. The rest stays free, for
  // code and graphs.
  double memory_fraction = 0.94;
};

// Replaces the sizes of 0 with shares. Encoding, weights and workspace get a sixteenth of the
// fraction each, at most 512 MiB. Contexts get two thirds of the rest of the fraction, and buffers
// one third; if one of the two has a size, the other gets the whole rest. Sizes other than 0 are
// kept.
//
// Returns InvalidArgument for a negative size, or a fraction outside (0, 1]. Returns
// ResourceExhausted with the sizes if the sum exceeds `free_bytes`, or nothing is left for a share.
absl::StatusOr<MemoryBudget> ShareOutMemory(const MemoryBudget& asked, int64_t free_bytes);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DEVICE_MEMORY_BUDGET_H_
