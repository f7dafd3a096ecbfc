// Shared memory of a block of LayersKernel.
#ifndef CHORALE_KERNELS_CUDA_LAYER_SMEM_LAYERS_SM90_H_
#define CHORALE_KERNELS_CUDA_LAYER_SMEM_LAYERS_SM90_H_

#include <cstdint>

#include "base/arena_layout.h"
#include "base/integer_math.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/smem_tile_sm90.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::kernels::cuda {

inline constexpr int kLayersHeadDim = 64;
// A unit of the ring: the V of a key block and the K of a later one, or the first two K; or the
// outputs of a weight tile that a warpgroup computes.
inline constexpr int kUnitBytes = 16384;
inline constexpr int kUnits = 3;  // of each consumer warpgroup
inline constexpr int kBufferStages = 2;
inline constexpr int kVectorSlots = 2;
inline constexpr int kLayersBarriersBytes = 512;
// K and V of a tile of whole paths, of a head.
inline constexpr int kPathKeysBytes = 2 * kTilePaths * kLayersHeadDim * 2;

// Of the two heads, one after the other: queries, in the order of the keys of a key block, and the
// softmax states of buffers. These, and the operand, are in use at different times.
struct LayersSmem {
  SmemArray<char> ring;            // [kConsumerWarpgroups][kUnits][kUnitBytes]
  TileSmem tile;                   // without a ring and vectors
  SmemArray<uint16_t> queries;     // [2][64, 64], where `hidden` begins
  SmemArray<char> buffer_stages;   // [kBufferStages]
  SmemArray<char> path_keys;       // [2]: see PathKeys; where the stages are of other tiles
  SmemArray<char> buffer_ml;       // [2]: see BufferStateOf
  SmemArray<float> vectors;        // [kVectorSlots][vectors_size]: post-, then pre-attention
  SmemArray<char> barriers;        // LayersBarriers
  SmemArray<Tile> tile_copy;       // [1]
  SmemArray<PathTile> paths_copy;  // [1]
  int32_t post_vectors_size = 0;
  int32_t vectors_size = 0;
  int32_t bytes = 0;
};

// `stage_bytes`: of a stage of the buffers. `ml_bytes`: of the m and l of a state.
constexpr LayersSmem LayersSmemOf(const ModelShape& shape, int stage_bytes, int ml_bytes) {
  SmemArenaLayout arena(128);
  LayersSmem layout;
  // What wgmma reads swizzled comes first, in sizes that keep it aligned to 1,024 bytes.
  layout.ring = arena.Take<char>(int64_t{kConsumerWarpgroups} * kUnits * kUnitBytes);
  layout.tile.hidden = arena.Take<uint16_t>(WeightTiles(shape.hidden) * kOperandTileSize);
  layout.queries = {layout.tile.hidden.offset};
  layout.tile.operand = arena.Take<uint16_t>(kOperandTileSize);
  layout.tile.row_halves = arena.Take<float>(int64_t{2} * kConsumerWarpgroups * kTileRows);
  layout.buffer_stages = arena.Take<char>(int64_t{kBufferStages} * stage_bytes);
  layout.path_keys = {static_cast<int32_t>(RoundUp(layout.buffer_stages.offset, 1024))};
  layout.buffer_ml = arena.Take<char>(int64_t{2} * ml_bytes);
  layout.post_vectors_size = PostAttentionVectorsSize(shape);
  layout.vectors_size = layout.post_vectors_size + PreAttentionVectorsSize(shape);
  layout.vectors = arena.Take<float>(int64_t{kVectorSlots} * layout.vectors_size);
  layout.barriers = arena.Take<char>(kLayersBarriersBytes);
  layout.tile_copy = arena.Take<Tile>(1);
  layout.paths_copy = arena.Take<PathTile>(1);
  layout.bytes = arena.bytes();
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_SMEM_LAYERS_SM90_H_
