// Shared memory of a block of TileLayerKernel.
#ifndef CHORALE_KERNELS_CUDA_LAYER_SMEM_TILE_SM90_H_
#define CHORALE_KERNELS_CUDA_LAYER_SMEM_TILE_SM90_H_

#include <algorithm>
#include <cstdint>

#include "base/arena_layout.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/layout/weight_tiles.h"

namespace chorale::kernels::cuda {

// The operand of a GEMM for 128 inputs of a tile's rows, in fragments of wgmma's operand A: [16
// inputs at a time][16 rows at a time][lane][8].
inline constexpr int kOperandTileSize = kTileRows * kWeightTileInputs;

struct TileSmem {
  SmemArray<uint16_t> operand;        // [kOperandTileSize] bf16: attention, then x
  SmemArray<uint16_t> hidden;         // [weight tiles of Dff][kOperandTileSize] bf16
  SmemArray<float> row_halves;        // [kConsumerWarpgroups][64]: HalfOfRow
  SmemArray<float> post_vectors;      // PostAttentionWeights::vectors
  SmemArray<float> pre_vectors;       // PreAttentionWeights::vectors
  SmemArray<Mbarrier> inputs_ready;   // [1]: vectors have arrived
  SmemArray<Mbarrier> ring_barriers;  // [2][stages]: full, empty
  SmemArray<char> ring;               // [stages][kStageBytes]
  int32_t stages = 0;                 // as many as fit; 0 if fewer than kMinStages do
  int32_t bytes = 0;
};

// REQUIRES: HasTileKernel(shape).
constexpr TileSmem TileSmemOf(const ModelShape& shape, int shared_bytes) {
  SmemArenaLayout arena(128);
  TileSmem layout;
  layout.operand = arena.Take<uint16_t>(kOperandTileSize);
  layout.hidden = arena.Take<uint16_t>(WeightTiles(shape.hidden) * kOperandTileSize);
  layout.row_halves = arena.Take<float>(int64_t{2} * kConsumerWarpgroups * kTileRows);
  layout.post_vectors = arena.Take<float>(PostAttentionVectorsSize(shape));
  layout.pre_vectors = arena.Take<float>(PreAttentionVectorsSize(shape));
  layout.inputs_ready = {arena.Take<uint64_t>(1).offset};
  layout.ring_barriers = {arena.Take<uint64_t>(int64_t{2} * kMaxStages).offset};
  constexpr int64_t kWeightTileBytes = int64_t{kConsumerWarpgroups} * kStageBytes;
  const int64_t stages_that_fit =
      (int64_t{shared_bytes} - arena.bytes()) / kWeightTileBytes * kConsumerWarpgroups;
  layout.stages = static_cast<int32_t>(std::clamp<int64_t>(stages_that_fit, 0, kMaxStages));
  if (layout.stages < kMinStages) layout.stages = 0;
  layout.ring = arena.Take<char>(int64_t{layout.stages} * kStageBytes);
  layout.bytes = static_cast<int32_t>(arena.bytes());
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_SMEM_TILE_SM90_H_
