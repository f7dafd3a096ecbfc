#include <dlfcn.h>

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/gemm/gemm_library.h"

namespace chorale::kernels::cuda {
namespace {

// By the loader's search path, then where CUDA's packages put it; the newest that is known first.
constexpr std::array kUsualPlaces = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
                                     "libcublasLt.so.12",
                                     "/usr/local/cuda/lib64/libcublasLt.so.12"};

std::string LastError() {
  const char* error = dlerror();  // NOLINT(concurrency-mt-unsafe): each thread has its own
  return error == nullptr ? "unknown error" : error;
}

absl::StatusOr<void*> OpenObject(const std::string& path) {
  if (!path.empty()) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return handle;
    return absl::NotFoundError(absl::StrCat("cannot open the file: ", LastError()));
  }
  std::string errors;
  for (const char* place : kUsualPlaces) {
    void* const handle = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return handle;
    absl::StrAppend(&errors, errors.empty() ? "" : "; ", LastError());
  }
  return absl::NotFoundError(
      absl::StrCat("cannot open libcublasLt.so.13 or libcublasLt.so.12 in the loader's path or "
                   "/usr/local/cuda/lib64: ",
                   errors));
}

}  // namespace

absl::StatusOr<OpenedLibrary> OpenCublasLt(const std::string& path) {
  const absl::StatusOr<void*> handle = OpenObject(path);
  if (!handle.ok()) return handle.status();
  const std::string name = path.empty() ? "libcublasLt" : path;
  auto* const get_version = reinterpret_cast<size_t (*)()>(dlsym(*handle, "cublasLtGetVersion"));
  if (get_version == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(name, " is not cuBLASLt: ", LastError()));
  }
  const auto version = static_cast<int64_t>(get_version());
  if (version < kOldestCublasLt) {
    return absl::FailedPreconditionError(absl::StrCat(name, " is cuBLASLt ", VersionText(version),
                                                      ", but ", VersionText(kOldestCublasLt),
                                                      " or newer is required"));
  }
  return OpenedLibrary{*handle, version};
}

std::string VersionText(int64_t version) {
  return absl::StrCat(version / 10'000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace chorale::kernels::cuda
