// Where tests find NVIDIA's libraries: the environment names files that the loader would not find.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_CUDA_LIBRARY_PATHS_H_
#define CHORALE_TESTS_ENGINE_BACKEND_CUDA_LIBRARY_PATHS_H_

#include <cstdlib>
#include <string>

namespace chorale::under_test {

inline std::string PathFromEnvironment(const char* variable) {
  const char* path = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): it is never changed
  return path == nullptr ? "" : path;
}

// libcublasLt, for cuda::BackendOptions::cublaslt; libcublas. Empty: the loader is to find it.
inline std::string CublasLtPath() { return PathFromEnvironment("CHORALE_CUBLASLT"); }
inline std::string CublasPath() { return PathFromEnvironment("CHORALE_CUBLAS"); }

}  // namespace chorale::under_test

#endif  // CHORALE_TESTS_ENGINE_BACKEND_CUDA_LIBRARY_PATHS_H_
