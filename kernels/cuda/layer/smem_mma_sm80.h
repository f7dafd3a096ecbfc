// How a block of the row kernel divides its shared memory.
#ifndef CHORALE_KERNELS_CUDA_LAYER_SMEM_MMA_SM80_H_
#define CHORALE_KERNELS_CUDA_LAYER_SMEM_MMA_SM80_H_

#include <algorithm>

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale::kernels::cuda {

// Offsets in bytes.
struct MmaSmem {
  int a_inputs = 0;  // padded to whole weight tiles
  int hidden_qkv_inputs = 0;
  int x_stride = 0;
  int head_shift = 0;       // log2 of Dh
  int operand = 0;          // [rows, operand_inputs] bf16 as MmaOperandAt has it: attention, then x
  int hidden_qkv_smem = 0;  // [rows, wide_inputs] likewise: the feed-forward layer, then q, K and V
  int x = 0;                // [rows][x_stride] f32
  int post_attention = 0;   // PostAttentionWeights::vectors
  int pre_attention = 0;    // PreAttentionWeights::vectors
  int bytes = 0;
};

constexpr int QkvWidth(const LayerParams& p) { return (p.heads + 2 * p.kv_heads) * p.head_dim; }
constexpr int PostAttentionVectorsSize(const LayerParams& p) {
  return 5 * p.width + static_cast<int>(WeightTiles(p.hidden)) * kWeightTileOutputs;
}
constexpr int PreAttentionVectorsSize(const LayerParams& p) { return 2 * p.width; }

// Of 8 rows, there is room for 16: tensor cores take no fewer.
constexpr MmaSmem MmaSmemOf(const LayerParams& p, int block_rows) {
  const int rows = std::max(block_rows, kGroupRows);
  const int sizeof_f32 = 4;
  const int sizeof_bf16 = 2;
  const auto padded = [](int n) { return static_cast<int>(WeightTiles(n)) * kWeightTileInputs; };
  MmaSmem layout;
  layout.a_inputs = padded(std::max(p.heads * p.head_dim, p.width));
  layout.hidden_qkv_inputs = padded(std::max(p.hidden, QkvWidth(p)));
  layout.x_stride = p.width + 8;  // rows g and columns 2j of a warp hit each bank once
  while (1 << layout.head_shift < p.head_dim) ++layout.head_shift;
  layout.operand = 0;
  layout.hidden_qkv_smem = layout.operand + rows * layout.a_inputs * sizeof_bf16;
  layout.x = layout.hidden_qkv_smem + rows * layout.hidden_qkv_inputs * sizeof_bf16;
  layout.post_attention = layout.x + rows * layout.x_stride * sizeof_f32;
  layout.pre_attention = layout.post_attention + PostAttentionVectorsSize(p) * sizeof_f32;
  layout.bytes = layout.pre_attention + PreAttentionVectorsSize(p) * sizeof_f32;
  return layout;
}

// The products of a layer, in their order.
enum class LayerGemm : int {
  kOutputProjection,  // x = LN2(x + Wo attention)
  kMlpUp,             // wide = gelu(W1 x + b1)
  kMlpDown,           // x = LN3(x + W2 wide + b2)
  kFeatureAttention,  // x = LN1(x + P x)
  kQkvProjection,     // wide = (Wq over Wk over Wv) x
};

constexpr int InputsOf(const LayerParams& p, LayerGemm product) {
  if (product == LayerGemm::kOutputProjection) return p.heads * p.head_dim;
  return product == LayerGemm::kMlpDown ? p.hidden : p.width;
}
constexpr int OutputsOf(const LayerParams& p, LayerGemm product) {
  if (product == LayerGemm::kMlpUp) return p.hidden;
  return product == LayerGemm::kQkvProjection ? QkvWidth(p) : p.width;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_SMEM_MMA_SM80_H_
