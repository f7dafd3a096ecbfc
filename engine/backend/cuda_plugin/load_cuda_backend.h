// Opens the GPU backend, which is a separate shared object. So one build of the server runs with
// and without a GPU, and loads CUDA only if it uses a GPU.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_LOAD_CUDA_BACKEND_H_
#define CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_LOAD_CUDA_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/backend.h"

namespace chorale::cuda {

// Returns the path of the shared object: CHORALE_CUDA_LIBRARY if it is set, else a file next to the
// running program, else a file in ../lib from there.
std::string LibraryPath();

// Returns NotFound if there is no such file.
absl::Status CheckLibrary(const std::string& path);

// Opens the shared object, which stays open, and creates its backend. Returns the error of
// CheckLibrary, FailedPrecondition if the shared object cannot be opened or was built from other
// sources than this program, or an error of NewBackend.
absl::StatusOr<std::unique_ptr<chorale::Backend>> LoadBackend(const std::string& path,
                                                              const BackendOptions& options);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_PLUGIN_LOAD_CUDA_BACKEND_H_
