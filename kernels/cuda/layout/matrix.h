// Weight matrices in host memory, before they are packed into a kernel's layout, and bfloat16.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_MATRIX_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_MATRIX_H_

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

// Pads each head of a matrix with zeros to padded_dim. The outputs, or inputs, of the matrix are
// heads of head_dim elements each.
Matrix PadHeadOutputs(const Matrix& matrix, int64_t head_dim, int64_t padded_dim);
Matrix PadHeadInputs(const Matrix& matrix, int64_t head_dim, int64_t padded_dim);

// Concatenates matrices with the same inputs along their outputs.
Matrix StackOutputs(const std::vector<Matrix>& matrices);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_MATRIX_H_
