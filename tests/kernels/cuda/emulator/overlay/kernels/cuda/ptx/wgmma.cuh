// Stands in for kernels/cuda/ptx/wgmma.cuh: products complete immediately.
#ifndef CHORALE_KERNELS_CUDA_PTX_WGMMA_CUH_
#define CHORALE_KERNELS_CUDA_PTX_WGMMA_CUH_

#include <cstdint>
#include <cstring>

#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/smem_descriptor.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {

inline void WgmmaFence() {}
inline void WgmmaCommit() {}
template <int kLeft>
void WgmmaWait() {}

template <typename Operands>
void HoldOperands(Operands&) {}
inline void ComputeBeforeWait(float) {}

// Element [row, column] of the matrix of a descriptor (MakeSmemDescriptor, MakeSwizzledDescriptor).
inline float DescribedElement(uint64_t matrix, int row, int column) {
  const auto field = [matrix](int first_bit) {
    return static_cast<int>(matrix >> first_bit & 0x3fffu) * 16;
  };
  int at = field(0) + row / 8 * field(32) + column % 8 * 2;
  if (matrix >> 62 == kSwizzle64) {
    at += row % 8 * 64 + column / 8 * 16;
    at ^= (at >> 7 & 3) << 4;  // as wgmma does it: pieces of 16 bytes change places by addresses
  } else {
    at += row % 8 * 16 + column / 8 * field(16);
  }
  return FirstBf16(*reinterpret_cast<const uint16_t*>(emulator::DynamicSmem() + at));
}

// c = a b^T, or c += a b^T: `a`(row, k) are the elements of a.
template <int kSums, typename A>
void AddProducts(float (&c)[kSums], const A& a, uint64_t b, bool accumulate) {
  const int lane = emulator::Lane();
  for (int i = 0; i < kSums; ++i) {
    const int row = lane / 4 + i % 4 / 2 * 8;
    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (!accumulate) c[i] = 0;
    for (int k = 0; k < 16; ++k) c[i] += a(row, k) * DescribedElement(b, column, k);
  }
}
template <int kSums>
void Wgmma(float (&c)[kSums], uint64_t a, uint64_t b, bool accumulate) {
  const int first_row = static_cast<int>(threadIdx.x) / kWarpSize % 4 * 16;
  AddProducts(
      c, [=](int row, int k) { return DescribedElement(a, first_row + row, k); }, b, accumulate);
}
template <int kSums>
void Wgmma(float (&c)[kSums], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  const char* all = emulator::Exchange(a, sizeof(a));
  // From the lane that holds it (layout/fragments.h).
  const auto element = [all](int row, int k) {
    const int owner = row % 8 * 4 + k % 8 / 2;
    const int word = row / 8 + k / 8 * 2;
    uint32_t bits;
    std::memcpy(&bits, all + owner * emulator::kExchangeBytes + word * sizeof(bits), sizeof(bits));
    return k % 2 == 0 ? FirstBf16(bits) : SecondBf16(bits);
  };
  AddProducts(c, element, b, accumulate);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_WGMMA_CUH_
