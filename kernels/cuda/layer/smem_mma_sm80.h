// Shared memory of a block of MmaLayerKernel.
#ifndef CHORALE_KERNELS_CUDA_LAYER_SMEM_MMA_SM80_H_
#define CHORALE_KERNELS_CUDA_LAYER_SMEM_MMA_SM80_H_

#include <algorithm>

#include "base/arena_layout.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/layout/weight_tiles.h"

namespace chorale::kernels::cuda {

// `rows` is the block's rows, at least 16.
struct MmaSmem {
  int a_inputs = 0;           // attention or x, padded to whole weight tiles
  int hidden_qkv_inputs = 0;  // hidden, or q, K and V, padded likewise
  int x_stride = 0;
  int head_shift = 0;              // log2(Dh)
  SmemArray<uint16_t> a;           // [rows, a_inputs] bf16, see MmaOperandAt: attention, then x
  SmemArray<uint16_t> hidden_qkv;  // [rows, hidden_qkv_inputs] likewise: hidden, then q, K and V
  SmemArray<float> x;              // [rows][x_stride]
  SmemArray<float> post_vectors;   // PostAttentionWeights::vectors
  SmemArray<float> pre_vectors;    // PreAttentionWeights::vectors
  int32_t bytes = 0;
};

// A block of 8 rows has memory for 16, because an mma takes 16.
constexpr MmaSmem MmaSmemOf(const ModelShape& shape, int block_rows) {
  const int64_t rows = std::max(block_rows, kGroupRows);
  const auto padded = [](int n) { return static_cast<int>(WeightTiles(n)) * kWeightTileInputs; };
  SmemArenaLayout arena(16);
  MmaSmem layout;
  layout.a_inputs = padded(std::max(shape.query_width(), shape.width));
  layout.hidden_qkv_inputs = padded(std::max(shape.hidden, shape.qkv_width()));
  layout.x_stride = shape.width + 8;  // no bank conflicts: rows g, columns 2j
  while (1 << layout.head_shift < shape.head_dim) ++layout.head_shift;
  layout.a = arena.Take<uint16_t>(rows * layout.a_inputs);
  layout.hidden_qkv = arena.Take<uint16_t>(rows * layout.hidden_qkv_inputs);
  layout.x = arena.Take<float>(rows * layout.x_stride);
  layout.post_vectors = arena.Take<float>(PostAttentionVectorsSize(shape));
  layout.pre_vectors = arena.Take<float>(PreAttentionVectorsSize(shape));
  layout.bytes = arena.bytes();
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_SMEM_MMA_SM80_H_
