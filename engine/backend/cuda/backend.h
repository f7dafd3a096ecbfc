// The backend for a machine with a GPU. It computes bfloat16 operands with float32 sums on tensor
// cores, keeps K/V in the GPU's memory, and steps the tiles of all sessions together. Each row is
// encoded once. The host computes the part of a row encoder that processes whole columns, in
// float32.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_BACKEND_H_
#define CHORALE_ENGINE_BACKEND_CUDA_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/memory_budget.h"

namespace chorale::cuda {

struct BackendOptions {
  MemoryBudget memory;
  // The file of cuBLASLt, which models of the unfused form need (KernelShape). If empty, the
  // system's loader or CUDA's usual folder provides it. Opened when the first such model is added.
  std::string cublaslt = {};
  // If a model has a kernel of all layers (kernels/cuda/layer/layers.h), it computes the decodes of
  // at least this number of tiles. Fewer tiles are faster layer by layer, because a tile then has
  // several multiprocessors. Results do not depend on it; tests set it to 1.
  int64_t least_tiles_of_all_layers = 64;
};

// Opens the GPU. Returns Unavailable if there is no usable GPU, ResourceExhausted with the sizes if
// its free memory is too small, and InvalidArgument for negative sizes.
absl::StatusOr<std::unique_ptr<chorale::Backend>> NewBackend(const BackendOptions& options);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_BACKEND_H_
