// Stores q, K and V of a layer's rows, for all versions of the layer kernel; single pieces of K
// and V also for the unfused form.
#ifndef CHORALE_KERNELS_CUDA_LAYER_STORE_QKV_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_STORE_QKV_CUH_

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

enum class KvPart { kKey, kValue };

// Stores elements d to d + 7 of a row's K or V of one head in one layer to the path's buffer, if
// the row is a buffer token.
__device__ __forceinline__ void StoreKvToBuffer(const Tile& tile, const ModelShape& shape,
                                                int kv_layer, int row, int kv_head, int d,
                                                KvPart part, const Words4& words) {
  const int path = row / kGroupRows * kGroupPaths + row % kGroupPaths;
  const bool is_token = row % kGroupRows >= kGroupPaths;
  if (!is_token || path >= tile.buffer_paths) return;
  uint16_t* position = tile.buffer +
                       kv_layer * BufferLayerSize(tile.buffer_capacity, tile.buffer_paths,
                                                  shape.kv_heads, shape.head_dim) +
                       BufferKeyAt(kv_head, tile.append_position, path, tile.buffer_capacity,
                                   tile.buffer_paths, shape.head_dim);
  if (part == KvPart::kValue) position += tile.buffer_paths * shape.head_dim;
  StoreAs<Words4>(position + d, words);
}

// Likewise to the context that is being encoded.
__device__ __forceinline__ void StoreKvToContext(const Tile& tile, const ModelShape& shape,
                                                 int kv_layer, int row, int kv_head, int d,
                                                 KvPart part, Words4 words) {
  if (row < tile.encode_first) return;
  if (row >= tile.encode_rows) words = {};  // pads the last key block
  uint16_t* key_block =
      tile.context + ContextKeyBlockAt(kv_layer, kv_head, tile.first_row / kKeyBlockKeys,
                                       tile.context_capacity, shape.kv_heads, shape.head_dim);
  if (part == KvPart::kKey) {
    StoreAs<Words4>(key_block + KeyBlockKeyAt(row, d, shape.head_dim), words);
    return;
  }
  const int at = KeyBlockValueAt(row, d, shape.head_dim);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint16_t* to = key_block + KeyBlockValueColumn(at, 2 * i, shape.head_dim);
    to[0] = static_cast<uint16_t>(words.w[i]);
    to[kSwizzledRow] = static_cast<uint16_t>(words.w[i] >> 16);
  }
}

// The rows of a block.
struct QkvRows {
  const Tile& tile;
  int tile_index;
  int first_row;  // of the block in its tile
  int rows;       // in use
};

// Where q, K and V of a launch go.
struct QkvTarget {
  ModelShape shape;
  int head_shift;  // log2(Dh)
  int kv_layer;
  uint16_t* q;

  __device__ __forceinline__ QkvTarget(const LayerParams& p, int shift)
      : shape(p.shape), head_shift(shift), kv_layer(p.kv_layer), q(p.q) {}
};

// Stores columns `column` to column + 7 of [q | K | V] of a row of the block.
__device__ __forceinline__ void StoreQkvWords(const QkvRows& rows, const QkvTarget& to, int row,
                                              int column, const Words4& words) {
  if (row >= rows.rows) return;
  row += rows.first_row;
  const int queries = to.shape.query_width();
  const int kv_width = to.shape.kv_heads * to.shape.head_dim;
  if (column < queries) {
    const int64_t at = static_cast<int64_t>(rows.tile_index) * kTileRows + row;
    StoreAs<Words4>(to.q + at * queries + column, words);
    return;
  }
  const KvPart part = column >= queries + kv_width ? KvPart::kValue : KvPart::kKey;
  column -= queries + (part == KvPart::kValue ? kv_width : 0);
  const int kv_head = column >> to.head_shift;
  const int d = column & (to.shape.head_dim - 1);
  if (rows.tile.first_row >= 0) {
    StoreKvToContext(rows.tile, to.shape, to.kv_layer, row, kv_head, d, part, words);
  } else if (rows.tile.append_position >= 0) {
    StoreKvToBuffer(rows.tile, to.shape, to.kv_layer, row, kv_head, d, part, words);
  }
}

// Stores q, K and V of kGroups groups from shared memory, [rows, padded_inputs] bf16
// (MmaOperandAt), to q, contexts and buffers. Called by kWarps warps; a lane stores 8 columns of
// rows g and g + 8 at a time.
template <int kGroups, int kWarps>
__device__ __forceinline__ void StoreQkvRows(const QkvRows& rows, const QkvTarget& to,
                                             const uint16_t* qkv, int padded_inputs) {
  const int row = LaneIndex() / 4;
  const int columns = to.shape.qkv_width();
#pragma unroll 1
  for (int i = WarpIndex(); i / kGroups * 32 < columns; i += kWarps) {
    const int first = i % kGroups * kGroupRows;
    const int column = i / kGroups * 32 + ThreadIndex() % 4 * 8;
    if (column >= columns) continue;
    const Words4 a = LoadAs<Words4>(qkv + MmaOperandAt(first + row, column, padded_inputs));
    const Words4 b = LoadAs<Words4>(qkv + MmaOperandAt(first + row, column + 4, padded_inputs));
    StoreQkvWords(rows, to, first + row, column, {a.w[0], a.w[2], b.w[0], b.w[2]});
    StoreQkvWords(rows, to, first + row + 8, column, {a.w[1], a.w[3], b.w[1], b.w[3]});
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_STORE_QKV_CUH_
