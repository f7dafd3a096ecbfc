// The layout of the range of the buffer pool that belongs to a decode's tile of paths, or to all
// tiles of paths of a density.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_PATH_BUFFER_H_
#define CHORALE_ENGINE_BACKEND_CUDA_PATH_BUFFER_H_

#include <cstdint>
#include <vector>

#include "base/arena_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/model.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

// A density may have several tiles of paths; `paths` is then the sum of their paths. `kv` and
// `order` contain the tiles one after the other: the part of a tile begins at its first path times
// kv_path_elements or P. In `values`, `densities` and `mixtures`, the row of a position contains
// the paths of all tiles.
//
// A path of a density has all its positions in one tile (Tile::path_positions), or one position in
// each of P tiles, and then K and V of its tokens in a buffer.
struct PathBufferLayout {
  enum class Use { kDecode, kDensity };
  PathBufferLayout(const KernelShape& shape, int64_t positions, int64_t paths, Use use);

  // Positions in the buffer: P - 1, because no row attends to the value at the last position; 0
  // without buffers.
  int64_t capacity = 0;
  int64_t kv_path_elements = 0;  // of one path, in all layers
  ArenaArray<uint16_t> kv;       // per tile: [L] layers of BufferElements(capacity, paths) bf16
  ArenaArray<float> values;      // [P, paths]
  ArenaArray<int32_t> order;     // [paths, P]

  // Only for a decode.
  ArenaArray<uint64_t> path_numbers;  // [paths]

  // Only for a density: one row tile for each tile of whole paths, or for each position of each
  // tile of paths.
  int32_t path_positions = 0;  // of Tile; 0 with buffers
  int64_t tile_paths = kernels::cuda::kTilePaths;
  int64_t row_tiles = 0;
  ArenaArray<float> x;                             // [row_tiles, 64, D]
  ArenaArray<uint16_t> q;                          // [row_tiles, 64, KernelShape::q_stride] bf16
  ArenaArray<kernels::cuda::Tile> tiles;           // [row_tiles]
  ArenaArray<kernels::cuda::PathTile> path_tiles;  // [row_tiles]
  ArenaArray<double> densities;                    // [P, paths]
  ArenaArray<float> mixtures;                      // [P, paths, 3, M]

  int64_t bytes = 0;
};

// The paths of one tile.
struct PathRange {
  int64_t first = 0;  // a multiple of tile_paths
  int64_t paths = 0;
};
std::vector<PathRange> TilesOfPaths(int64_t paths, int64_t tile_paths);

// Tile::path_positions of a density with `positions` positions: 0 unless there is a kernel for
// whole paths, and their rows fill most of a tile.
int32_t PathPositions(const KernelShape& shape, int64_t positions);

// Return the fields of Tile and PathTile that are the same at every position of a tile of paths;
// `values` is set for position 0. `memory` is the range of the buffer pool, device memory.
kernels::cuda::Tile TileOfPaths(const PathBufferLayout& layout, char* memory,
                                const ContextKeys& context, PathRange paths);
kernels::cuda::PathTile PathTileOf(const PathBufferLayout& layout, char* memory,
                                   const TileSpec& spec, PathRange paths);

// Uploads spec.order, and the values of the first positions, [N, paths]. Both may be empty.
void UploadTile(const PathBufferLayout& layout, char* memory, const TileSpec& spec,
                const std::vector<float>& values, Device& device);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_PATH_BUFFER_H_
