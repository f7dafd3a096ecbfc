// Inputs of the tests of attention.
#ifndef CHORALE_TESTS_KERNELS_CUDA_ATTENTION_INPUTS_H_
#define CHORALE_TESTS_KERNELS_CUDA_ATTENTION_INPUTS_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/layout/matrix.h"

namespace chorale::kernels::cuda {

inline constexpr uint16_t kNanBf16 = 0x7fff;

// Element 0 of every query, so that element 0 of a key shifts all its scores by a chosen number.
inline constexpr float kQueryLevel = 4;

// The nearest numbers that are exactly representable in bf16.
inline std::vector<float> Rounded(std::vector<float> values) {
  for (float& x : values) x = FromBf16(ToBf16(x));
  return values;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_ATTENTION_INPUTS_H_
