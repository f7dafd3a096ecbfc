// The backend for a machine with a GPU: bfloat16 operands and float32 sums on tensor cores, K/V in
// the GPU's memory, tiles of all sessions stepped together. Rows are encoded once each; what a row
// encoder makes of a whole column in between is made on the host, in float32.
//
// State: held to the float64 model and the golden models on the emulator; not yet run on a GPU.
#ifndef CHORALE_ENGINE_BACKENDS_CUDA_CUDA_BACKEND_H_
#define CHORALE_ENGINE_BACKENDS_CUDA_CUDA_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"

namespace chorale {

struct CudaBackendOptions {
  // All of it is taken at once. 0: a share of what the GPU has free, see memory_budget.h.
  int64_t context_pool_bytes = 0;
  int64_t buffer_pool_bytes = 0;
  int64_t encode_pool_bytes = 0;
  int64_t weights_bytes = 0;
  int64_t workspace_bytes = 0;
  // Pinned memory of the host, taken at once, to which contexts are evicted; 0: they are dropped.
  int64_t host_context_pool_bytes = 0;
};

// Unavailable when there is no GPU that can be used; ResourceExhausted, with the numbers, when it
// has too little free memory; InvalidArgument for negative sizes.
absl::StatusOr<std::unique_ptr<Backend>> NewCudaBackend(const CudaBackendOptions& options);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKENDS_CUDA_CUDA_BACKEND_H_
