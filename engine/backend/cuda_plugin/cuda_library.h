// The one symbol that the GPU backend's shared object exports to the program that opens it.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_CUDA_LIBRARY_H_
#define CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_CUDA_LIBRARY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/backend.h"

namespace chorale::cuda {

// The program and the shared object exchange C++ objects, so both must come from the same compiler
// and declarations: the versions of project and compiler, and a digest of the headers.
inline constexpr char kLibraryBuild[] = CHORALE_BUILD_VERSION;

inline constexpr char kLibraryEntryName[] = "chorale_cuda_library";

struct LibraryEntry {
  const char* build = nullptr;
  absl::StatusOr<std::unique_ptr<chorale::Backend>> (*new_backend)(const BackendOptions&) = nullptr;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_CUDA_LIBRARY_H_
