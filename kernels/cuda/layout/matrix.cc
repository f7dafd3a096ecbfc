#include "kernels/cuda/layout/matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace chorale::kernels::cuda {

uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float FromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t ToFp16(float value) {
  constexpr uint32_t kInfinity = 0x7c00;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const float size = std::fabs(value);
  uint32_t rounded = kInfinity;
  if (std::isnan(value)) {
    rounded = kInfinity | 0x200u;
  } else if (size < 0x1p-14f) {
    rounded = static_cast<uint32_t>(std::nearbyint(size * 0x1p24f));  // subnormal
  } else if (size < 65520.0f) {
    // The exponent's bias is 15 instead of 127.
    rounded = ((bits & 0x7fffffffu) - (112u << 23) + 0xfffu + (bits >> 13 & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | rounded);
}

Matrix PadHeadOutputs(const Matrix& matrix, int64_t head_dim, int64_t padded_dim) {
  const int64_t heads = matrix.out / head_dim;
  Matrix padded = {std::vector<float>(heads * padded_dim * matrix.in), heads * padded_dim,
                   matrix.in};
  for (int64_t h = 0; h < heads; ++h) {
    std::copy_n(matrix.values.data() + h * head_dim * matrix.in, head_dim * matrix.in,
                padded.values.data() + h * padded_dim * matrix.in);
  }
  return padded;
}

Matrix PadHeadInputs(const Matrix& matrix, int64_t head_dim, int64_t padded_dim) {
  const int64_t heads = matrix.in / head_dim;
  Matrix padded = {std::vector<float>(matrix.out * heads * padded_dim), matrix.out,
                   heads * padded_dim};
  for (int64_t o = 0; o < matrix.out; ++o) {
    for (int64_t h = 0; h < heads; ++h) {
      std::copy_n(matrix.values.data() + o * matrix.in + h * head_dim, head_dim,
                  padded.values.data() + o * padded.in + h * padded_dim);
    }
  }
  return padded;
}

Matrix StackOutputs(const std::vector<Matrix>& matrices) {
  Matrix all = {{}, 0, matrices.front().in};
  for (const Matrix& matrix : matrices) {
    all.out += matrix.out;
    all.values.insert(all.values.end(), matrix.values.begin(), matrix.values.end());
  }
  return all;
}

}  // namespace chorale::kernels::cuda
