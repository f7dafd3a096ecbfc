#include "engine/backend/cuda_plugin/load_cuda_backend.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/backend/cuda_plugin/cuda_library.h"

namespace chorale::cuda {
namespace {

constexpr char kFileName[] = "libchorale_cuda.so";

std::string LastError() {
  const char* error = dlerror();  // NOLINT(concurrency-mt-unsafe): each thread has its own
  return error == nullptr ? "unknown error" : error;
}

}  // namespace

std::string LibraryPath() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment.
  if (const char* path = std::getenv("CHORALE_CUDA_LIBRARY"); path != nullptr) return path;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return kFileName;
  const std::filesystem::path beside = program.parent_path() / kFileName;
  if (std::filesystem::exists(beside, error)) return beside;
  return program.parent_path().parent_path() / "lib" / kFileName;
}

absl::Status CheckLibrary(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no ", path));
}

absl::StatusOr<std::unique_ptr<chorale::Backend>> LoadBackend(const std::string& path,
                                                              const BackendOptions& options) {
  RETURN_IF_ERROR(CheckLibrary(path));
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cannot open ", path, ": ", LastError()));
  }
  const auto* entry = static_cast<const LibraryEntry*>(dlsym(library, kLibraryEntryName));
  if (entry == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a GPU backend: ", LastError()));
  }
  if (std::strcmp(entry->build, kLibraryBuild) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, " belongs to build ", entry->build,
                                                      ", but this program to ", kLibraryBuild));
  }
  return entry->new_backend(options);
}

}  // namespace chorale::cuda
