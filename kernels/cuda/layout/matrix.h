// Weight matrices in host memory, before they are packed into a kernel's layout, bfloat16 and
// float16.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_MATRIX_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_MATRIX_H_

#include <bit>
#include <cstdint>
#include <vector>

namespace chorale::kernels::cuda {

// A matrix [out, in] in float32, row-major.
struct Matrix {
  std::vector<float> values;
  int64_t out = 0;
  int64_t in = 0;
};

// The nearest bfloat16, ties to even. REQUIRES: value is finite.
uint16_t ToBf16(float value);
float FromBf16(uint16_t bits);

// The nearest float16, ties to even; infinity beyond the largest, 65504.
uint16_t ToFp16(float value);
inline float FromFp16(uint16_t bits) {
  // The bias of the exponent is 15 instead of 127; the largest exponent is that of infinity.
  const uint32_t infinity = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
  const float size = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | infinity | (bits & 0x8000u) << 16);
}

// Pads each head of a matrix with zeros to padded_dim. The outputs, or inputs, of the matrix are
// heads of head_dim elements each.
Matrix PadHeadOutputs(const Matrix& matrix, int64_t head_dim, int64_t padded_dim);
Matrix PadHeadInputs(const Matrix& matrix, int64_t head_dim, int64_t padded_dim);

// Concatenates matrices with the same inputs along their outputs.
Matrix StackOutputs(const std::vector<Matrix>& matrices);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_MATRIX_H_
