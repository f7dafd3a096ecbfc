// Device memory layouts of the row encoder "cell_attention"
// (engine/backend/row_encoder/cell_attention.cc). Its cell blocks (attention and MLP) work on
// narrow tokens: 16 of them stay in a warp's registers throughout a cell block, and all its weights
// in shared memory.
//
// Sums of 16 tokens are tensor-core C fragments (kernels/cuda/layout): lane l holds elements
// 8n + {2j, 2j+1} of tokens g and g + 8. Packed to bfloat16 they are, word by word, A and B
// fragments of the next product, without going through memory.
//
// Narrower tokens and heads are padded with zeros, which stay zero.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_LAYOUT_H_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_LAYOUT_H_

#include <cstdint>

#include "base/integer_math.h"

namespace chorale::kernels::cuda {

inline constexpr int kCellWidth = 64;  // E
inline constexpr int kCellHeads = 4;
inline constexpr int kCellHeadWidth = kCellWidth / kCellHeads;
inline constexpr int kCellHidden = 2 * kCellWidth;
inline constexpr int kCellTileTokens = 16;
// Most columns of a table: K and V of one row's cells fit in a thread block's shared memory.
inline constexpr int kMostColumns = 256;

// What the kernels know about the encoder's true sizes.
struct CellShape {
  int32_t width = 0;      // E, a multiple of 8, at most kCellWidth
  float epsilon = 0;      // of layer norms
  float score_scale = 0;  // log2(e) times the head width to the power -1/2
};

// ---- Weights -------------------------------------------------------------------------------
//
// A matrix W [out, in] is [8 outputs at a time][32 inputs at a time][lane][8]: a lane's 16 bytes
// are its part of two fragments, of A as well as of B.

constexpr int64_t CellWeightAt(int64_t output, int64_t input, int64_t inputs) {
  const int64_t lane = output % 8 * 4 + input % 8 / 2;
  return (output / 8 * (inputs / 32) + input / 32) * 256 + lane * 8 + input % 32 / 8 * 2 +
         input % 2;
}

// A cell block (engine/model/row_encoder_weights.h): its matrices in bf16, then its vectors in
// float32. Offsets in elements.
inline constexpr int kCellBlockWq = 0;
inline constexpr int kCellBlockWk = kCellBlockWq + kCellWidth * kCellWidth;
inline constexpr int kCellBlockWv = kCellBlockWk + kCellWidth * kCellWidth;
inline constexpr int kCellBlockWo = kCellBlockWv + kCellWidth * kCellWidth;
inline constexpr int kCellBlockW1 = kCellBlockWo + kCellWidth * kCellWidth;
inline constexpr int kCellBlockW2 = kCellBlockW1 + kCellHidden * kCellWidth;
inline constexpr int kCellBlockMatrices = kCellBlockW2 + kCellWidth * kCellHidden;

inline constexpr int kCellBlockGamma1 = 0;
inline constexpr int kCellBlockBeta1 = kCellBlockGamma1 + kCellWidth;
inline constexpr int kCellBlockGamma2 = kCellBlockBeta1 + kCellWidth;
inline constexpr int kCellBlockBeta2 = kCellBlockGamma2 + kCellWidth;
inline constexpr int kCellBlockB2 = kCellBlockBeta2 + kCellWidth;
inline constexpr int kCellBlockB1 = kCellBlockB2 + kCellWidth;
inline constexpr int kCellBlockVectors = kCellBlockB1 + kCellHidden;

inline constexpr int kCellBlockBytes = kCellBlockMatrices * 2 + kCellBlockVectors * 4;

// ---- Keys and values -----------------------------------------------------------------------
//
// Of a cell tile of 16 tokens: [head][K, V][lane][8] bf16, in elements.

inline constexpr int kCellTileKvSize = 2 * kCellTileTokens * kCellWidth;
inline constexpr int kCellHeadKvSize = kCellTileKvSize / kCellHeads;
inline constexpr int kCellHeadKeysSize = kCellHeadKvSize / 2;  // values follow a head's keys

constexpr int CellTileKeyAt(int token, int d) {
  return d / 16 * kCellHeadKvSize + (token % 8 * 4 + d % 8 / 2) * 8 + token / 8 * 4 +
         d % 16 / 8 * 2 + d % 2;
}
constexpr int CellTileValueAt(int token, int d) {
  return d / 16 * kCellHeadKvSize + kCellHeadKeysSize + (d % 8 * 4 + token % 8 / 2) * 8 +
         d % 16 / 8 * 4 + token / 8 * 2 + token % 2;
}

// ---- Cells of rows -------------------------------------------------------------------------
//
// Between kernels: [rows][cell tiles of 16 columns][1024] f32, each in the order of CellTokens.

inline constexpr int kCellTile = kCellTileTokens * kCellWidth;

constexpr int64_t CellTiles(int64_t columns) { return CeilDiv(columns, kCellTileTokens); }

constexpr int CellAt(int token, int d) {
  return ((d / 8 * 2 + token / 8) * 32 + token % 8 * 4 + d % 8 / 2) * 2 + d % 2;
}

// ---- Summaries -----------------------------------------------------------------------------
//
// Softmax states of up to 16 inducing points over a column: o [16, 64], not divided by l, then m
// and l, [4 heads, 16] each; f32. Scores are in units of log 2.

inline constexpr int kSummaryM = kCellTileTokens * kCellWidth;
inline constexpr int kSummaryL = kSummaryM + kCellHeads * kCellTileTokens;
inline constexpr int kSummarySize = kSummaryL + kCellHeads * kCellTileTokens;

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_LAYOUT_H_
