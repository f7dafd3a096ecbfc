// The backend for a machine with a GPU: bfloat16 operands and float32 sums on tensor cores, K/V in
// the GPU's memory, tiles of all sessions stepped together. Row encoders run on the host, in
// float32, once per row.
//
// State: held to the float64 model and the golden models on the emulator; never run on a GPU, so
// that the server does not open it.
#ifndef CHORALE_ENGINE_BACKENDS_CUDA_CUDA_BACKEND_H_
#define CHORALE_ENGINE_BACKENDS_CUDA_CUDA_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"

namespace chorale {

struct CudaBackendOptions {
  int threads = 0;                          // of the host, for row encoders; 0: one per processor
  int64_t context_pool_bytes = 16LL << 30;  // these five are taken at once
  int64_t buffer_pool_bytes = 8LL << 30;
  int64_t encode_pool_bytes = 512LL << 20;
  int64_t weights_bytes = 512LL << 20;
  int64_t workspace_bytes = 512LL << 20;
  // Pinned memory of the host, taken at once, to which contexts are evicted; 0: they are dropped.
  int64_t host_context_pool_bytes = 0;
};

// Unavailable when there is no GPU; ResourceExhausted, with the numbers, when it has too little
// free memory; InvalidArgument for budgets that are not positive.
absl::StatusOr<std::unique_ptr<Backend>> NewCudaBackend(const CudaBackendOptions& options);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKENDS_CUDA_CUDA_BACKEND_H_
