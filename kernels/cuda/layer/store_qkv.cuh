// Where q, K and V of a layer's rows go, from whichever kernel has them.
#ifndef CHORALE_KERNELS_CUDA_LAYER_STORE_QKV_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_STORE_QKV_CUH_

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/smem_mma_sm80.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// Elements d to d + 7 of a head's key, or of its value, of a row of the tile: to the path's buffer,
// if the row is a buffer token's.
__device__ __forceinline__ void StoreKvToBuffer(const Tile& tile, const LayerParams& p, int row,
                                                int kv_head, int d, bool value,
                                                const Words4& words) {
  const int path = row / kGroupRows * kGroupPaths + row % kGroupPaths;
  const bool of_buffer_token = row % kGroupRows >= kGroupPaths;
  if (!of_buffer_token || path >= tile.buffer_paths) return;
  uint16_t* position = tile.buffer +
                       p.kv_layer * BufferLayerSize(tile.buffer_capacity, tile.buffer_paths,
                                                    p.kv_heads, p.head_dim) +
                       BufferKeyAt(kv_head, tile.append_position, path, tile.buffer_capacity,
                                   tile.buffer_paths, p.head_dim);
  if (!value) {
    StoreAs<Words4>(position + d, words);
    return;
  }
  position += tile.buffer_paths * p.head_dim;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    StoreAs<uint32_t>(position + BufferValueColumn(d + 2 * i, p.head_dim), words.w[i]);
  }
}

// Likewise, of a row of a context that is being encoded.
__device__ __forceinline__ void StoreKvToContext(const Tile& tile, const LayerParams& p, int row,
                                                 int kv_head, int d, bool value, Words4 words) {
  if (row >= tile.encode_rows) words = {};  // fills up the last block
  const int64_t blocks = ContextBlocks(tile.context_rows);
  uint16_t* block = tile.context +
                    p.kv_layer * ContextLayerSize(tile.context_rows, p.kv_heads, p.head_dim) +
                    (kv_head * blocks + tile.first_row / kBlockKeys) * BlockSize(p.head_dim);
  if (!value) {
    StoreAs<Words4>(block + BlockKeyAt(row, d, p.head_dim), words);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    block[BlockValueAt(row, d + 2 * i, p.head_dim)] = static_cast<uint16_t>(words.w[i]);
    block[BlockValueAt(row, d + 2 * i + 1, p.head_dim)] = static_cast<uint16_t>(words.w[i] >> 16);
  }
}

// The rows of a block, from `first_row` of the tile on, of which `rows` are in use.
struct QkvRows {
  const Tile& tile;
  int tile_index;
  int first_row;
  int rows;
};

// Columns `column` to column + 7 of q, K and V side by side, of a row of the block.
__device__ __forceinline__ void StoreQkvWords(const QkvRows& rows, const LayerParams& p,
                                              int head_shift, int row, int column,
                                              const Words4& words) {
  if (row >= rows.rows) return;
  row += rows.first_row;
  const int queries = p.heads * p.head_dim;
  const int kv_width = p.kv_heads * p.head_dim;
  if (column < queries) {
    const int64_t at = static_cast<int64_t>(rows.tile_index) * kTileRows + row;
    StoreAs<Words4>(p.q + at * queries + column, words);
    return;
  }
  const bool value = column >= queries + kv_width;
  column -= queries + (value ? kv_width : 0);
  const int kv_head = column >> head_shift;
  const int d = column & (p.head_dim - 1);
  if (rows.tile.first_row >= 0) {
    StoreKvToContext(rows.tile, p, row, kv_head, d, value, words);
  } else if (rows.tile.append_position >= 0) {
    StoreKvToBuffer(rows.tile, p, row, kv_head, d, value, words);
  }
}

// Brings q, K and V of kGroups groups from shared memory, where MmaOperandAt has them, to where
// they go: a lane 8 columns of rows g and g + 8 at a time, of kWarps warps.
template <int kGroups, int kWarps>
__device__ __forceinline__ void StoreQkv(const QkvRows& rows, const LayerParams& p, int head_shift,
                                         const uint16_t* qkv_smem, int padded_inputs) {
  const int row = LaneIndex() / 4;
  const int columns = QkvWidth(p);
#pragma unroll 1
  for (int i = WarpIndex(); i / kGroups * 32 < columns; i += kWarps) {
    const int first = i % kGroups * kGroupRows;
    const int column = i / kGroups * 32 + ThreadIndex() % 4 * 8;
    if (column >= columns) continue;
    const Words4 a = LoadAs<Words4>(qkv_smem + MmaOperandAt(first + row, column, padded_inputs));
    const Words4 b =
        LoadAs<Words4>(qkv_smem + MmaOperandAt(first + row, column + 4, padded_inputs));
    StoreQkvWords(rows, p, head_shift, first + row, column, {a.w[0], a.w[2], b.w[0], b.w[2]});
    StoreQkvWords(rows, p, head_shift, first + row + 8, column, {a.w[1], a.w[3], b.w[1], b.w[3]});
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_STORE_QKV_CUH_
