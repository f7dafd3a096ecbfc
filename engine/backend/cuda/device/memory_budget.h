// How the GPU's memory is shared out at start.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DEVICE_MEMORY_BUDGET_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DEVICE_MEMORY_BUDGET_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace chorale::cuda {

// All of it is taken at once.
struct MemoryBudget {
  int64_t context_pool_bytes = 0;  // 0, here and in the next four: a share, see ShareOutMemory
  int64_t buffer_pool_bytes = 0;
  int64_t encode_pool_bytes = 0;
  int64_t weights_bytes = 0;
  int64_t workspace_bytes = 0;  // what the kernels of one launch leave for each other
  // Pinned memory of the host, to which contexts are evicted; 0: they are dropped.
  int64_t host_context_pool_bytes = 0;
};

// Fills in what is 0 from what the GPU has free, and holds the whole to it. Encoding, weights and
// workspace get a sixteenth each, and 512 MiB at most; a sixteenth stays free for kernels and
// graphs. Of the rest contexts get two thirds and buffers one third, or either all that the other
// leaves.
//
// InvalidArgument for a negative size; ResourceExhausted, with the numbers, when it is too much.
absl::StatusOr<MemoryBudget> ShareOutMemory(const MemoryBudget& asked, int64_t free_bytes);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DEVICE_MEMORY_BUDGET_H_
