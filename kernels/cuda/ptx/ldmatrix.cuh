// ldmatrix: fragments of mma from rows in shared memory.
#ifndef CHORALE_KERNELS_CUDA_PTX_LDMATRIX_CUH_
#define CHORALE_KERNELS_CUDA_PTX_LDMATRIX_CUH_

#include <cstdint>

namespace chorale::kernels::cuda {

// Loads four matrices of 8 rows of 8 bf16, each row 16 bytes at a 16-byte aligned address. Lane
// 8 i + r passes the address of row r of matrix i. words[i] becomes elements 2j and 2j + 1 of row g
// of matrix i; transposed: element g of rows 2j and 2j + 1.
__device__ __forceinline__ void LoadMatrices(uint32_t row, uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t row, uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row)
               : "memory");
}
// Transposes a matrix whose rows g the lanes have, elements 2j and 2j + 1 of them.
__device__ __forceinline__ uint32_t TransposeMatrix(uint32_t words) {
  uint32_t transposed;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(words));
  return transposed;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_LDMATRIX_CUH_
