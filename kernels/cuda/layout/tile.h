// A tile of 64 rows: the unit in which rows go through the model. A launch works on an array of
// tiles in device memory, which may belong to any sessions, contexts and phases of one model.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_TILE_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_TILE_H_

#include <cstdint>

namespace chorale::kernels::cuda {

// A tile has four groups of 16 rows, the rows of one mma. In a tile of paths, the query row and the
// buffer token of a path are rows g and g + 8 of a group, pair g of the group: the same four lanes
// hold both rows, and load each key of the path's buffer once for both.
inline constexpr int kTilePaths = 32;
inline constexpr int kTileRows = 64;
inline constexpr int kGroupRows = 16;
inline constexpr int kGroupPaths = 8;
inline constexpr int kTileGroups = kTileRows / kGroupRows;

// clang-format off
//   phase                  row of the tile               attends to                    writes K and V
//   encode a context       context row first_row + row   the context                   to the context
//   decode, position t     a path's query row t             context, buffer 0..t-1        -
//                          the path's buffer token t-1   context, buffer 0..t-1        to buffer t-1
//   density, position t    a path's query row t             context, buffer 0..t-1        -
//                          the path's buffer token t     context, buffer 0..t          to buffer t
//   density, whole paths   a path's query row t             context, tokens 0..t-1        -
//                          the path's buffer token t     context, tokens 0..t          -
//   predict                a query row                   the context                   -
// clang-format on
//
// A tile that encodes rows of a context has rows first_row to first_row + 63 of it, a whole key
// block. If the context has keys of earlier rows already, the first rows of the tile may be among
// them: they are rows like all others, but nothing reads their results, and their keys stay.
//
// A context is complete before a tile that only reads it is uploaded. Kernels change `groups`,
// `visible_*` and `append_position` of an uploaded tile (LaunchHead), and nothing else.
// Pointers are device memory.
struct Tile {
  uint16_t* context = nullptr;  // [L] layers of ContextLayerSize(context_capacity, Hkv, Dh), bf16
  uint16_t* buffer = nullptr;   // [L] layers of BufferLayerSize(...), bf16; null: no buffer
  // [L][Hkv][ContextWeights(context_capacity)]: logarithms of the weights of the context keys,
  // finite, in units of log 2. Null: all weights are 1. Those of the buffer's keys are 1.
  const float* context_log_weights = nullptr;
  int32_t context_rows = 0;  // Nctx, to which the rows attend
  // Rows that the memory of the context is laid out for: at least context_rows, and more while
  // further rows are still to be encoded.
  int32_t context_capacity = 0;
  int32_t groups = 0;            // groups in use, from the first on; 0: skip this tile
  int32_t buffer_paths = 0;      // paths that the buffer has room for, a multiple of 8
  int32_t buffer_capacity = 0;   // positions
  int32_t visible_query = 0;     // buffer positions that a path's query row attends to
  int32_t visible_buffer = 0;    // buffer positions that its buffer token attends to
  int32_t append_position = -1;  // buffer position to which K and V are written; -1: none
  int32_t first_row = -1;        // of the context being encoded, a multiple of 64; -1: not encoding
  int32_t encode_first = 0;      // first row of the tile whose K and V are written
  int32_t encode_rows = 0;       // rows of the tile that are rows of that context
  // 8, 16 or 32: a tile of whole paths, each with as many pairs of rows: those of its positions 0,
  // 1, ... Tokens are in the tile, not in a buffer (LayersParams::whole_paths). 0: all other tiles.
  int32_t path_positions = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_TILE_H_
