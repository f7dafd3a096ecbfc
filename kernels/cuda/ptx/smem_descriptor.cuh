// Matrix descriptors of wgmma.
#ifndef CHORALE_KERNELS_CUDA_PTX_SMEM_DESCRIPTOR_CUH_
#define CHORALE_KERNELS_CUDA_PTX_SMEM_DESCRIPTOR_CUH_

#include <cstdint>

namespace chorale::kernels::cuda {

// A matrix of bf16 in shared memory as products of a warpgroup take it, 16 columns of it at a time:
// its rows in eights, of which 8 columns are 8 times 16 bytes without a gap; one such piece lies
// `columns_stride` bytes behind that of the 8 columns before, and `rows_stride` behind that of the
// 8 rows before. Strides and addresses are multiples of 16, and small enough for shared memory.
// (PTX: matrix descriptor, K-major, without swizzling.) A descriptor may be added to: sixteenths of
// bytes.
__device__ __forceinline__ uint64_t MakeSmemDescriptor(uint32_t address, int columns_stride,
                                                       int rows_stride) {
  return address >> 4 | static_cast<uint64_t>(columns_stride >> 4) << 16 |
         static_cast<uint64_t>(rows_stride >> 4) << 32;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_SMEM_DESCRIPTOR_CUH_
