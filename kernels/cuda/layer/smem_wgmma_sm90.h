// Shared memory of a block of WgmmaLayerKernel.
#ifndef CHORALE_KERNELS_CUDA_LAYER_SMEM_WGMMA_SM90_H_
#define CHORALE_KERNELS_CUDA_LAYER_SMEM_WGMMA_SM90_H_

#include <algorithm>

#include "base/arena_layout.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/weight_tiles.h"

namespace chorale::kernels::cuda {

struct Mbarrier;  // ptx/mbarrier.cuh, which needs CUDA; 64 bits

// Warps that multiply: few, so that each can have as many registers as it needs.
inline constexpr int kConsumerWarps = 8;
inline constexpr int kConsumerWarpgroups = kConsumerWarps / kWarpgroupWarps;

// A stage of the weight ring (weight_ring.cuh): the outputs of a weight tile that one consumer
// warpgroup computes. A warpgroup releases a stage only when its next one is in use, so each needs
// at least two.
inline constexpr int kStageBytes =
    kWeightTileSize * static_cast<int>(sizeof(uint16_t)) / kConsumerWarpgroups;
inline constexpr int kMinStages = 2 * kConsumerWarpgroups;
inline constexpr int kMaxStages = 6 * kConsumerWarpgroups;

// `rows` is the block's rows.
struct WgmmaSmem {
  int a_inputs = 0;  // attention or x, padded to whole weight tiles
  int hidden_inputs = 0;
  int qkv_inputs = 0;
  int x_stride = 0;
  int head_shift = 0;     // log2(Dh)
  SmemArray<uint16_t> a;  // [rows, a_inputs] bf16, see WgmmaOperandAt: attention, then x
  // [rows, hidden_inputs] bf16, see WgmmaOperandAt; then q, K and V: [rows, qkv_inputs] bf16, see
  // MmaOperandAt.
  SmemArray<uint16_t> hidden_qkv;
  SmemArray<float> x;                 // [rows][x_stride]
  SmemArray<float> post_vectors;      // PostAttentionWeights::vectors
  SmemArray<float> pre_vectors;       // PreAttentionWeights::vectors
  SmemArray<Mbarrier> inputs_ready;   // [1]: x and vectors have arrived
  SmemArray<Mbarrier> ring_barriers;  // [2][stages]: full, empty
  SmemArray<char> ring;               // [stages][kStageBytes]
  int32_t stages = 0;                 // as many as fit; 0 if fewer than kMinStages do
  int32_t bytes = 0;
};

constexpr WgmmaSmem WgmmaSmemOf(const ModelShape& shape, int block_rows, int shared_bytes) {
  const auto padded = [](int n) { return static_cast<int>(WeightTiles(n)) * kWeightTileInputs; };
  SmemArenaLayout arena(128);
  WgmmaSmem layout;
  layout.a_inputs = padded(std::max(shape.query_width(), shape.width));
  layout.hidden_inputs = padded(shape.hidden);
  layout.qkv_inputs = padded(shape.qkv_width());
  layout.x_stride = shape.width + 4;  // no bank conflicts: columns 2g, rows 2j
  while (1 << layout.head_shift < shape.head_dim) ++layout.head_shift;
  layout.a = arena.Take<uint16_t>(WgmmaOperandSize(block_rows, layout.a_inputs));
  layout.hidden_qkv = arena.Take<uint16_t>(
      std::max(WgmmaOperandSize(block_rows, layout.hidden_inputs), block_rows * layout.qkv_inputs));
  layout.x = arena.Take<float>(int64_t{block_rows} * layout.x_stride);
  layout.post_vectors = arena.Take<float>(PostAttentionVectorsSize(shape));
  layout.pre_vectors = arena.Take<float>(PreAttentionVectorsSize(shape));
  layout.inputs_ready = {arena.Take<uint64_t>(1).offset};
  layout.ring_barriers = {arena.Take<uint64_t>(int64_t{2} * kMaxStages).offset};
  const int stages_that_fit =
      (shared_bytes - arena.bytes()) / (kConsumerWarpgroups * kStageBytes) * kConsumerWarpgroups;
  layout.stages = std::min(kMaxStages, stages_that_fit);
  if (layout.stages < kMinStages) layout.stages = 0;
  layout.ring = arena.Take<char>(int64_t{layout.stages} * kStageBytes);
  layout.bytes = arena.bytes();
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_SMEM_WGMMA_SM90_H_
