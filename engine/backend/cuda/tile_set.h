// The tiles of a launch and their rows, in device memory.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_TILE_SET_H_
#define CHORALE_ENGINE_BACKEND_CUDA_TILE_SET_H_

#include <cstdint>

#include "engine/backend/cuda/kernel_shape.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

struct TileSet {
  kernels::cuda::Tile* tiles = nullptr;      // [count]
  kernels::cuda::PathTile* paths = nullptr;  // [count]; null for rows that do not belong to paths
  float* x = nullptr;                        // [count, 64, D] f32
  uint16_t* q = nullptr;                     // [count, 64, KernelShape::q_stride] bf16
  int32_t count = 0;
  int64_t largest_context = 0;  // rows
  bool encodes = false;         // true for rows of a context that is being encoded
  bool whole_paths = false;     // true for tiles of whole paths (Tile::path_positions)
  bool weighted = false;        // true if the keys of a tile's context may have weights
  // True if the context of the tiles has the keys of a single layer, that which is being computed
  // (memory_encode_work.h). Such tiles have no buffers.
  bool one_layer = false;

  // The layer of the tiles' contexts and buffers in which the keys of a layer of the model are.
  int32_t ContextLayer(int64_t layer) const { return one_layer ? 0 : static_cast<int32_t>(layer); }

  TileSet Part(const KernelShape& shape, int64_t first, int64_t part_count) const {
    const int64_t row = first * kernels::cuda::kTileRows;
    return {.tiles = tiles + first,
            .paths = paths == nullptr ? nullptr : paths + first,
            .x = x + row * shape.width,
            .q = q + row * shape.q_stride,
            .count = static_cast<int32_t>(part_count),
            .largest_context = largest_context,
            .encodes = encodes,
            .whole_paths = whole_paths,
            .weighted = weighted,
            .one_layer = one_layer};
  }
};

// Returns the bytes of x and q of one tile.
inline int64_t TileRowBytes(const KernelShape& shape) {
  return kernels::cuda::kTileRows * (shape.width * static_cast<int64_t>(sizeof(float)) +
                                     shape.q_stride * static_cast<int64_t>(sizeof(uint16_t)));
}

// Returns the bytes of the partial result of attention for one split of one tile.
inline int64_t PartialBytes(const KernelShape& shape) {
  const int64_t elements =
      int64_t{kernels::cuda::kTileRows} * (shape.query_width() + 2 * shape.heads);
  return elements * static_cast<int64_t>(sizeof(float));
}

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_TILE_SET_H_
