// How a block of the row kernel divides its shared memory.
#ifndef CHORALE_KERNELS_CUDA_LAYER_SMEM_MMA_SM80_H_
#define CHORALE_KERNELS_CUDA_LAYER_SMEM_MMA_SM80_H_

#include <algorithm>

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale::kernels::cuda {

// Offsets in bytes.
struct RowLayout {
  int operand_inputs = 0;  // padded to whole slabs
  int wide_inputs = 0;
  int x_stride = 0;
  int head_shift = 0;  // log2 of Dh
  int operand = 0;     // [rows, operand_inputs] bf16 as OperandAt has it: attention, then x
  int wide = 0;        // [rows, wide_inputs] likewise: the feed-forward layer, then q, K and V
  int x = 0;           // [rows][x_stride] f32
  int finish = 0;      // FinishWeights::vectors
  int leave = 0;       // LeaveWeights::vectors
  int bytes = 0;
};

constexpr int ProjectedWidth(const RowLayerParams& p) {
  return (p.heads + 2 * p.kv_heads) * p.head_dim;
}
constexpr int FinishVectorsSize(const RowLayerParams& p) {
  return 5 * p.width + static_cast<int>(Slabs(p.hidden)) * kSlabOutputs;
}
constexpr int LeaveVectorsSize(const RowLayerParams& p) { return 2 * p.width; }

// Of 8 rows, there is room for 16: tensor cores take no fewer.
constexpr RowLayout RowLayoutOf(const RowLayerParams& p, int block_rows) {
  const int rows = std::max(block_rows, kGroupRows);
  const int sizeof_f32 = 4;
  const int sizeof_bf16 = 2;
  const auto padded = [](int n) { return static_cast<int>(Slabs(n)) * kSlabInputs; };
  RowLayout layout;
  layout.operand_inputs = padded(std::max(p.heads * p.head_dim, p.width));
  layout.wide_inputs = padded(std::max(p.hidden, ProjectedWidth(p)));
  layout.x_stride = p.width + 8;  // rows g and columns 2j of a warp hit each bank once
  while (1 << layout.head_shift < p.head_dim) ++layout.head_shift;
  layout.operand = 0;
  layout.wide = layout.operand + rows * layout.operand_inputs * sizeof_bf16;
  layout.x = layout.wide + rows * layout.wide_inputs * sizeof_bf16;
  layout.finish = layout.x + rows * layout.x_stride * sizeof_f32;
  layout.leave = layout.finish + FinishVectorsSize(p) * sizeof_f32;
  layout.bytes = layout.leave + LeaveVectorsSize(p) * sizeof_f32;
  return layout;
}

// The products of a layer, in their order.
enum class RowProduct : int {
  kAttention,   // x = LN2(x + Wo attention)
  kUp,          // wide = gelu(W1 x + b1)
  kDown,        // x = LN3(x + W2 wide + b2)
  kFeature,     // x = LN1(x + P x)
  kProjection,  // wide = (Wq over Wk over Wv) x
};

constexpr int InputsOf(const RowLayerParams& p, RowProduct product) {
  if (product == RowProduct::kAttention) return p.heads * p.head_dim;
  return product == RowProduct::kDown ? p.hidden : p.width;
}
constexpr int OutputsOf(const RowLayerParams& p, RowProduct product) {
  if (product == RowProduct::kUp) return p.hidden;
  return product == RowProduct::kProjection ? ProjectedWidth(p) : p.width;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_SMEM_MMA_SM80_H_
