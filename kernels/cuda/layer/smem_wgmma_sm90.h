// How a block of the row kernel that takes products of warpgroups divides its shared memory.
#ifndef CHORALE_KERNELS_CUDA_LAYER_SMEM_WGMMA_SM90_H_
#define CHORALE_KERNELS_CUDA_LAYER_SMEM_WGMMA_SM90_H_

#include <algorithm>

#include "base/integer_math.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/smem_mma_sm80.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale::kernels::cuda {

// Warps that take products of warpgroups: few, for each to have all registers it wants.
inline constexpr int kConsumerWarps = 8;
inline constexpr int kConsumerWarpgroups = kConsumerWarps / kWarpgroupWarps;

// A stage of the ring (stage_ring.cuh): half of the outputs of a weight tile. One weight tile is
// let go when the next is asked for.
inline constexpr int kStageBytes =
    kWeightTileSize * static_cast<int>(sizeof(uint16_t)) / kConsumerWarpgroups;
inline constexpr int kMinStages = 2 * kConsumerWarpgroups;
inline constexpr int kMaxStages = 6 * kConsumerWarpgroups;

// Offsets in bytes.
struct WgmmaSmem {
  int a_inputs = 0;  // padded to whole weight tiles, as the next two
  int hidden = 0;
  int qkv_smem = 0;
  int x_stride = 0;
  int head_shift = 0;  // log2 of Dh
  int operand = 0;     // [rows, operand_inputs] bf16 as WgmmaOperandAt has it: attention, then x
  // [rows, hidden] likewise, or [rows, projected] bf16 as MmaOperandAt has it: q, K and V.
  int hidden_qkv_smem = 0;
  int x = 0;               // [rows][x_stride] f32
  int post_attention = 0;  // PostAttentionWeights::vectors
  int pre_attention = 0;   // PreAttentionWeights::vectors
  int inputs_ready = 0;    // Mbarrier: x and vectors have come
  int mbarriers = 0;       // [2][stages] Mbarrier: full, empty
  int ring = 0;            // [stages] kStageBytes
  int stages = 0;          // as many as there is room for, 0 if that is too few
  int bytes = 0;
};

constexpr WgmmaSmem WgmmaSmemOf(const LayerParams& p, int block_rows, int shared_bytes) {
  const auto padded = [](int n) { return static_cast<int>(WeightTiles(n)) * kWeightTileInputs; };
  int next = 0;
  const auto take = [&next](int bytes) {
    const int at = next;
    next = static_cast<int>(RoundUp(next + bytes, 128));
    return at;
  };
  WgmmaSmem layout;
  layout.a_inputs = padded(std::max(p.heads * p.head_dim, p.width));
  layout.hidden = padded(p.hidden);
  layout.qkv_smem = padded(QkvWidth(p));
  layout.x_stride = p.width + 4;  // columns 2g of rows 2j hit each bank once
  while (1 << layout.head_shift < p.head_dim) ++layout.head_shift;
  layout.operand = take(2 * WgmmaOperandSize(block_rows, layout.a_inputs));
  layout.hidden_qkv_smem =
      take(2 * std::max(WgmmaOperandSize(block_rows, layout.hidden), block_rows * layout.qkv_smem));
  layout.x = take(4 * block_rows * layout.x_stride);
  layout.post_attention = take(4 * PostAttentionVectorsSize(p));
  layout.pre_attention = take(4 * PreAttentionVectorsSize(p));
  layout.inputs_ready = take(8);
  layout.mbarriers = take(2 * kMaxStages * 8);
  layout.ring = next;
  layout.stages = std::min(kMaxStages, (shared_bytes - next) / (kConsumerWarpgroups * kStageBytes) *
                                           kConsumerWarpgroups);
  if (layout.stages < kMinStages) layout.stages = 0;
  layout.bytes = layout.ring + layout.stages * kStageBytes;
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_SMEM_WGMMA_SM90_H_
