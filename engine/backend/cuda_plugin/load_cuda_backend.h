// Opens the GPU backend, which is a shared object of its own: one build of the server runs with and
// without a GPU, and loads CUDA only if it uses one.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_LOAD_CUDA_BACKEND_H_
#define CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_LOAD_CUDA_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/backend.h"

namespace chorale::cuda {

// Where the shared object is looked for: CHORALE_CUDA_LIBRARY if that is set, else beside the
// running program, then in ../lib from there.
std::string LibraryPath();

// NotFound when there is no such file.
absl::Status CheckLibrary(const std::string& path);

// Of CheckLibrary; FailedPrecondition when it cannot be opened or was built
// from other sources than this program; else the errors of NewBackend. The shared object
// stays open.
absl::StatusOr<std::unique_ptr<chorale::Backend>> LoadBackend(const std::string& path,
                                                              const BackendOptions& options);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_LOAD_CUDA_BACKEND_H_
