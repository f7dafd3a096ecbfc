// Packs weights and tokens of "cell_attention" into the layouts of cell_layout.h, in host memory.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_WEIGHTS_H_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/row_encoder/cell_layout.h"

namespace chorale::kernels::cuda {

// Weights of a cell block, not padded: see engine/model/row_encoder_weights.h.
struct CellBlockWeights {
  Matrix wq, wk, wv, wo, w1, w2;
  std::vector<float> gamma1, beta1, gamma2, beta2;
  std::vector<float> b1, b2;
};

// Whether the kernels support tokens of that width with so many heads.
constexpr bool IsSupportedCell(int64_t width, int64_t heads) {
  return width % 8 == 0 && width <= kCellWidth && heads <= kCellHeads &&
         width / heads <= kCellHeadWidth;
}

// A matrix in the layout of CellWeightAt, padded to `out` and `in`.
// REQUIRES: out is a multiple of 8 and in of 32.
std::vector<uint16_t> PackCellMatrix(const Matrix& matrix, int64_t out, int64_t in);

// A cell block (cell_layout.h), kCellBlockBytes. REQUIRES: IsSupportedCell.
std::vector<uint16_t> PackCellBlock(const CellBlockWeights& weights, int64_t heads);

// [rows, width] padded to [rows, kCellWidth].
std::vector<float> PadTokens(const std::vector<float>& tokens, int64_t width);

// Writes K and V of up to kCellTileTokens tokens to `tile`, kCellTileKvSize elements; the rest is
// zero. A row of `projected` is [K | V], each [heads, head width].
void PackCellTileKv(const float* projected, int64_t tokens, int64_t width, int64_t heads,
                    uint16_t* tile);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_WEIGHTS_H_
