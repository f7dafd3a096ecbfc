// Vectors of 8 and 16 bytes, for loads and stores in one instruction.
#ifndef CHORALE_KERNELS_CUDA_PTX_VECTOR_TYPES_CUH_
#define CHORALE_KERNELS_CUDA_PTX_VECTOR_TYPES_CUH_

#include <cstdint>

namespace chorale::kernels::cuda {

struct alignas(8) Words2 {
  uint32_t w[2];
};
struct alignas(16) Words4 {
  uint32_t w[4];
};
struct alignas(8) Floats2 {
  float v[2];
};
struct alignas(16) Floats4 {
  float v[4];
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_VECTOR_TYPES_CUH_
