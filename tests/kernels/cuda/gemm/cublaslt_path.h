// Which cuBLASLt a test program opens.
#ifndef CHORALE_TESTS_KERNELS_CUDA_GEMM_CUBLASLT_PATH_H_
#define CHORALE_TESTS_KERNELS_CUDA_GEMM_CUBLASLT_PATH_H_

#include <cstdlib>
#include <string>

namespace chorale {

// On the emulator what stands in for it; on a GPU the file that CHORALE_CUBLASLT names, or the one
// that is found. Such a program is built with both definitions.
inline std::string CublasLtPath() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment.
  if (const char* path = std::getenv("CHORALE_CUBLASLT"); path != nullptr) return path;
  return CHORALE_STAND_IN_CUBLASLT;
}

// A stand-in that is too old; empty on a GPU.
inline std::string OldCublasLtPath() { return CHORALE_OLD_CUBLASLT; }

}  // namespace chorale

#endif  // CHORALE_TESTS_KERNELS_CUDA_GEMM_CUBLASLT_PATH_H_
