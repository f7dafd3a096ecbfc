#include "kernels/cuda/row_encoder/cell_weights.h"

#include <algorithm>
#include <cstring>

namespace chorale::kernels::cuda {

std::vector<uint16_t> PackCellMatrix(const Matrix& matrix, int64_t out, int64_t in) {
  std::vector<uint16_t> packed(out * in);
  for (int64_t o = 0; o < matrix.out; ++o) {
    for (int64_t i = 0; i < matrix.in; ++i) {
      packed[CellWeightAt(o, i, in)] = ToBf16(matrix.values[o * matrix.in + i]);
    }
  }
  return packed;
}

std::vector<uint16_t> PackCellBlock(const CellBlockWeights& weights, int64_t heads) {
  std::vector<uint16_t> block(kCellBlockBytes / sizeof(uint16_t));
  const int64_t head_width = weights.wq.out / heads;
  const auto put = [&](const Matrix& matrix, int64_t out, int64_t in, int64_t at) {
    const std::vector<uint16_t> packed = PackCellMatrix(matrix, out, in);
    std::copy(packed.begin(), packed.end(), block.begin() + at);
  };
  const auto put_heads = [&](const Matrix& matrix, int64_t at) {
    put(PadHeadOutputs(matrix, head_width, kCellHeadWidth), kCellWidth, kCellWidth, at);
  };
  put_heads(weights.wq, kCellBlockWq);
  put_heads(weights.wk, kCellBlockWk);
  put_heads(weights.wv, kCellBlockWv);
  put(PadHeadInputs(weights.wo, head_width, kCellHeadWidth), kCellWidth, kCellWidth, kCellBlockWo);
  put(weights.w1, kCellHidden, kCellWidth, kCellBlockW1);
  put(weights.w2, kCellWidth, kCellHidden, kCellBlockW2);

  std::vector<float> vectors(kCellBlockVectors);
  const auto put_vector = [&](const std::vector<float>& values, int64_t at) {
    std::copy(values.begin(), values.end(), vectors.begin() + at);
  };
  put_vector(weights.gamma1, kCellBlockGamma1);
  put_vector(weights.beta1, kCellBlockBeta1);
  put_vector(weights.gamma2, kCellBlockGamma2);
  put_vector(weights.beta2, kCellBlockBeta2);
  put_vector(weights.b2, kCellBlockB2);
  put_vector(weights.b1, kCellBlockB1);
  std::memcpy(block.data() + kCellBlockMatrices, vectors.data(), vectors.size() * sizeof(float));
  return block;
}

std::vector<float> PadTokens(const std::vector<float>& tokens, int64_t width) {
  const auto rows = static_cast<int64_t>(tokens.size()) / width;
  std::vector<float> padded(rows * kCellWidth);
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(tokens.data() + row * width, width, padded.data() + row * kCellWidth);
  }
  return padded;
}

void PackCellTileKv(const float* projected, int64_t tokens, int64_t width, int64_t heads,
                    uint16_t* tile) {
  std::fill_n(tile, kCellTileKvSize, uint16_t{0});
  const int64_t head_width = width / heads;
  for (int64_t token = 0; token < tokens; ++token) {
    const float* keys = projected + token * 2 * width;
    for (int64_t d = 0; d < width; ++d) {
      const auto padded = static_cast<int>(d / head_width * kCellHeadWidth + d % head_width);
      tile[CellTileKeyAt(static_cast<int>(token), padded)] = ToBf16(keys[d]);
      tile[CellTileValueAt(static_cast<int>(token), padded)] = ToBf16(keys[width + d]);
    }
  }
}

}  // namespace chorale::kernels::cuda
