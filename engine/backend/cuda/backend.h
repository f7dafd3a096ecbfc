// The backend for a machine with a GPU: bfloat16 operands and float32 sums on tensor cores, K/V in
// the GPU's memory, tiles of all sessions stepped together. Each row is encoded once. The part of a
// row encoder that works on whole columns runs on the host, in float32.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_BACKEND_H_
#define CHORALE_ENGINE_BACKEND_CUDA_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/memory_budget.h"

namespace chorale::cuda {

struct BackendOptions {
  MemoryBudget memory;
  // The file of cuBLASLt, which models of the unfused form need (KernelShape). Empty: where the
  // system's loader or CUDA's usual folder has it. Opened when the first such model is added.
  std::string cublaslt = {};
};

// Unavailable when there is no GPU that can be used; ResourceExhausted, with the numbers, when it
// has too little free memory; InvalidArgument for negative sizes.
absl::StatusOr<std::unique_ptr<chorale::Backend>> NewBackend(const BackendOptions& options);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_BACKEND_H_
