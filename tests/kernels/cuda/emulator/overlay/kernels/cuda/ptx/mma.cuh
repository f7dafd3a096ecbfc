// Stands in for kernels/cuda/ptx/mma.cuh.
#ifndef CHORALE_KERNELS_CUDA_PTX_MMA_CUH_
#define CHORALE_KERNELS_CUDA_PTX_MMA_CUH_

#include <cstdint>
#include <cstring>

#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {

// `value` returns the first or the second operand in a word.
template <typename Value>
void MultiplyFragments(float (&c)[4], const uint32_t (&own)[6], const Value& value) {
  const char* all = emulator::Exchange(own, sizeof(own));
  const int lane = emulator::Lane();
  // Element k of a row of A, or of a column of B, from the lane that holds it (layout/fragments.h).
  const auto element = [&](int owner, int word, int k) {
    uint32_t bits;
    std::memcpy(&bits, all + owner * emulator::kExchangeBytes + word * sizeof(uint32_t),
                sizeof(bits));
    return value(bits, k % 2 == 0);
  };
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4;
    const int half = i / 2;
    const int column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int j = k % 8 / 2;
      const float a = element(row * 4 + j, half + 2 * (k / 8), k);
      const float b = element(column * 4 + j, 4 + k / 8, k);
      c[i] += a * b;
    }
  }
}

inline void Mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                uint32_t b1) {
  MultiplyFragments(c, {a0, a1, a2, a3, b0, b1}, [](uint32_t word, bool first) {
    return first ? FirstBf16(word) : SecondBf16(word);
  });
}

inline void MmaFromZero(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                        uint32_t b0, uint32_t b1) {
  for (float& x : c) x = 0;
  Mma(c, a0, a1, a2, a3, b0, b1);
}

inline void MmaFp16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  MultiplyFragments(c, {a[0], a[1], a[2], a[3], b0, b1}, [](uint32_t word, bool first) {
    return first ? FirstFp16(word) : SecondFp16(word);
  });
}

// The other 8 inputs are zero.
inline void Mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  Mma(c, a0, a1, 0, 0, b0, 0);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_MMA_CUH_
