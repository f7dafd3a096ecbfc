// What the shared object of the GPU backend shows to the program that opens it: one variable.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_CUDA_LIBRARY_H_
#define CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_CUDA_LIBRARY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/backend.h"

namespace chorale {

// The program and the shared object hand C++ objects to each other, so they must come from the same
// compiler and declarations: the versions of project and compiler, and a digest of the headers.
inline constexpr char kCudaLibraryBuild[] = CHORALE_BUILD_VERSION;

inline constexpr char kCudaLibraryEntryName[] = "chorale_cuda_library";

struct CudaLibraryEntry {
  const char* build = nullptr;
  absl::StatusOr<std::unique_ptr<Backend>> (*new_backend)(const CudaMemoryBudget&) = nullptr;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_CUDA_LIBRARY_H_
