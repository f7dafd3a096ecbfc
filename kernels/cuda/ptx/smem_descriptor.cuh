// Matrix descriptors of wgmma.
#ifndef CHORALE_KERNELS_CUDA_PTX_SMEM_DESCRIPTOR_CUH_
#define CHORALE_KERNELS_CUDA_PTX_SMEM_DESCRIPTOR_CUH_

#include <cstdint>

namespace chorale::kernels::cuda {

// Describes a bf16 operand of wgmma in shared memory, K-major without swizzling. It consists of
// core matrices of 8 rows by 8 columns, 128 contiguous bytes each: neighbours along the columns are
// columns_stride bytes apart, along the rows rows_stride bytes. Addresses and strides are multiples
// of 16 bytes below 256 KB. Adding n to a descriptor advances its address by 16 n bytes.
__device__ __forceinline__ uint64_t MakeSmemDescriptor(uint32_t address, int columns_stride,
                                                       int rows_stride) {
  return address >> 4 | static_cast<uint64_t>(columns_stride >> 4) << 16 |
         static_cast<uint64_t>(rows_stride >> 4) << 32;
}

// Likewise of swizzled rows (SwizzledAt, layout/fragments.h): 8 rows by 32 columns are 512
// contiguous bytes, aligned to that; the next 8 rows are rows_stride bytes further. Describes
// columns 0 to 15; columns 16 to 31 begin 32 bytes further.
inline constexpr uint64_t kSwizzle64 = 2;  // of the two highest bits; 0: none
__device__ __forceinline__ uint64_t MakeSwizzledDescriptor(uint32_t address, int rows_stride) {
  return address >> 4 | uint64_t{1} << 16 | static_cast<uint64_t>(rows_stride >> 4) << 32 |
         kSwizzle64 << 62;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_SMEM_DESCRIPTOR_CUH_
