// The parts of "cell_attention" in float64, in plain loops. As in the kernels, weights and the
// operands multiplied with them are rounded to bf16, except the weights of a softmax.
#ifndef CHORALE_TESTS_KERNELS_CUDA_ROW_ENCODER_CELL_REFERENCE_H_
#define CHORALE_TESTS_KERNELS_CUDA_ROW_ENCODER_CELL_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/row_encoder/cell_table.h"
#include "kernels/cuda/row_encoder/cell_weights.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {

using Token = std::vector<double>;
using Tokens = std::vector<Token>;

// A number that rounds to bf16 in the other direction than the reference's is off by a relative
// 2^-8, which moves a result by that times a weight; a few of these add up.
inline constexpr Tolerance kCellRounding{1.2e-2, 8e-3};

struct CellSizes {
  int width = kCellWidth;  // E
  int heads = kCellHeads;

  CellShape shape() const;
};

// An attention block with random weights, which bf16 holds exactly.
class CellBlockReference {
 public:
  // `sharpness` multiplies the queries: with 1 the largest scores are around 1.
  CellBlockReference(const CellSizes& sizes, uint32_t seed, float sharpness = 1);

  std::vector<uint16_t> Packed() const { return PackCellBlock(weights_, sizes_.heads); }

  // K and V of tokens: [K | V], in bf16.
  Tokens KeysValues(const Tokens& memory) const;
  // The attention of a token, before Wo.
  Token Attended(const Token& x, const Tokens& keys_values) const;
  Token Finish(Token x, const Token& attended) const;
  Token Attend(const Token& x, const Tokens& keys_values) const {
    return Finish(x, Attended(x, keys_values));
  }

 private:
  const CellSizes sizes_;
  CellBlockWeights weights_;
};

Matrix RandomCellMatrix(int64_t out, int64_t in, uint32_t seed);
Token RoundedToBf16(Token values);
Token CellProduct(const Matrix& w, const Token& x);
Token CellSum(Token a, const Token& b);
Token CellNorm(const Token& x, const std::vector<float>& gamma, const std::vector<float>& beta);

// [n, width] of float32 as tokens, and tokens padded to kCellWidth.
Tokens ToTokens(const std::vector<float>& values, int64_t width);
std::vector<float> Padded(const Tokens& tokens);

// A table with missing cells, large numbers and a categorical column, on the host and the device.
class CellTableCase {
 public:
  CellTableCase(int rows, int columns, uint32_t seed);

  CellTable OnDevice(bool with_y = false) const;
  // Features of a cell, then of y if requested.
  Token Features(int row, int column, bool with_y) const;

 private:
  const int rows_;
  const int columns_;
  std::vector<float> values_;
  std::vector<uint8_t> missing_, categorical_;
  std::vector<float> y_;
  DeviceArray<float> values_on_device_, y_on_device_;
  DeviceArray<uint8_t> missing_on_device_, categorical_on_device_;
};

// The first map of a cell: W features + b, in float32 on the device.
struct CellEmbeddingCase {
  CellEmbeddingCase(const CellSizes& sizes, int inputs, uint32_t seed);
  std::vector<float> Packed() const;  // [inputs + 1, kCellWidth]
  Token Embed(const Token& features) const;

  Matrix matrix;
  std::vector<float> bias;
};

// Cells of rows as the kernels pass them to each other, [rows][columns] tokens of `width`.
// Padding is NaN.
std::vector<float> TiledCells(const std::vector<Tokens>& rows);
Token CellOf(const std::vector<float>& tiled, int row, int column, int columns, int width);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_ROW_ENCODER_CELL_REFERENCE_H_
