// How a block of the row kernel divides its shared memory.
#ifndef CHORALE_KERNELS_CUDA_ROW_LAYOUT_H_
#define CHORALE_KERNELS_CUDA_ROW_LAYOUT_H_

#include "kernels/cuda/layout.h"
#include "kernels/cuda/row_layer.h"

namespace chorale::kernels::cuda {

// Rows of bf16 in shared memory lie so far apart that the eight lanes of one 16-byte access cycle,
// which read 64 bytes of each of two neighbouring rows, hit each bank once.
constexpr int OperandStride(int padded_inputs) { return padded_inputs + 32; }
inline constexpr int kHiddenStride = OperandStride(kSlabInputs);

// Of RowBlock.
inline constexpr int kFewestStages = 2;
inline constexpr int kMostStages = 4;

// Of 16 rows that a block has, the last one perhaps half.
constexpr int RowGroups(const RowBlock& block) {
  return static_cast<int>(CeilDiv(block.rows, kGroupRows));
}

// The vectors of a layer that are kept in shared memory, each of D elements, and b1 behind them.
enum LayerVector : int { kGamma1, kBeta1, kGamma2, kBeta2, kB2, kGamma3, kBeta3, kB1 };

// Offsets in bytes.
struct RowLayout {
  int operand_inputs = 0;  // padded to whole slabs
  int operand_stride = 0;
  int x_stride = 0;
  int operand = 0;  // [rows][operand_stride] bf16: what the next matrix is multiplied with
  int hidden = 0;   // [2][rows][kHiddenStride] bf16: two slices of the feed-forward layer
  int x = 0;        // [rows][x_stride] f32
  int vectors = 0;  // [kB1][D] f32, then b1 [128 Slabs(Dff)]
  int ring = 0;     // [stages][kSlabSize] bf16: weights
  int bytes = 0;
};

constexpr RowLayout RowLayoutOf(const RowLayerParams& p, const RowBlock& block) {
  const int rows = RowGroups(block) * kGroupRows;
  const int widest = p.heads * p.head_dim > p.width ? p.heads * p.head_dim : p.width;
  const int sizeof_f32 = 4;
  const int sizeof_bf16 = 2;
  RowLayout layout;
  layout.operand_inputs = static_cast<int>(Slabs(widest)) * kSlabInputs;
  layout.operand_stride = OperandStride(layout.operand_inputs);
  layout.x_stride = p.width + 8;  // rows g and columns 2j of a warp hit each bank once
  layout.operand = 0;
  layout.hidden = rows * layout.operand_stride * sizeof_bf16;
  layout.x = layout.hidden + 2 * rows * kHiddenStride * sizeof_bf16;
  layout.vectors = layout.x + rows * layout.x_stride * sizeof_f32;
  const int biases = static_cast<int>(Slabs(p.hidden)) * kSlabOutputs;
  layout.ring = layout.vectors + (kB1 * p.width + biases) * sizeof_f32;
  layout.bytes = layout.ring + block.stages * kSlabSize * sizeof_bf16;
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_LAYOUT_H_
