// Stands in for kernels/cuda/ptx/wgmma.cuh: products complete immediately.
#ifndef CHORALE_KERNELS_CUDA_PTX_WGMMA_CUH_
#define CHORALE_KERNELS_CUDA_PTX_WGMMA_CUH_

#include <cstdint>

#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/smem_descriptor.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {

inline void WgmmaFence() {}
inline void WgmmaCommit() {}
template <int kLeft>
void WgmmaWait() {}

// Element [row, column] of the matrix of a descriptor (MakeSmemDescriptor).
inline float DescribedElement(uint64_t matrix, int row, int column) {
  const auto field = [matrix](int first_bit) {
    return static_cast<int>(matrix >> first_bit & 0x3fffu) * 16;
  };
  const char* at = emulator::DynamicSmem() + field(0) + column / 8 * field(16) +
                   row / 8 * field(32) + row % 8 * 16 + column % 8 * 2;
  return FirstBf16(*reinterpret_cast<const uint16_t*>(at));
}
template <int kSums>
void Wgmma(float (&c)[kSums], uint64_t a, uint64_t b, bool accumulate) {
  const int lane = emulator::Lane();
  const int first_row = static_cast<int>(threadIdx.x) / kWarpSize % 4 * 16 + lane / 4;
  for (int i = 0; i < kSums; ++i) {
    const int row = first_row + i % 4 / 2 * 8;
    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (!accumulate) c[i] = 0;
    for (int k = 0; k < 16; ++k) {
      c[i] += DescribedElement(a, row, k) * DescribedElement(b, column, k);
    }
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_WGMMA_CUH_
