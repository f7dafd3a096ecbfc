// The range of the buffer pool that a tile of paths has, and how it is divided.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_PATH_BUFFER_H_
#define CHORALE_ENGINE_BACKEND_CUDA_PATH_BUFFER_H_

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/model.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

// Byte offsets. The value at the last place is never attended to, so that a buffer of T - 1 places
// is enough. A density may have several tiles of paths; what belongs to one of them lies together,
// and so first_path times what one path takes behind what belongs to the first.
struct TileMemory {
  enum class Use { kDecode, kDensity };
  TileMemory(const KernelShape& shape, int64_t targets, int64_t paths, Use use);

  int64_t capacity = 0;       // places
  int64_t kv = 0;             // of each tile: [L] layers of BufferElements(capacity, paths) bf16
  int64_t kv_path_bytes = 0;  // of all layers
  int64_t values = 0;         // of each tile: [T, paths] f32
  int64_t order = 0;          // of each tile: [paths, T] int32
  // Of a density: a tile of 64 rows for each tile of paths and each of its places.
  int64_t rows_tiles = 0;  // tiles of paths times T
  int64_t x = 0;           // [rows_tiles, 64, D] f32
  int64_t q = 0;           // [rows_tiles, 64, H Dh] bf16
  int64_t tiles = 0;       // [rows_tiles] Tile
  int64_t path_tiles = 0;  // [rows_tiles] PathTile
  int64_t densities = 0;   // of each tile: [T, paths] f64
  int64_t mixtures = 0;    // of each tile: [T, paths, 3, M] f32
  int64_t bytes = 0;
};

// Some of a request's paths, that share a tile.
struct PathRange {
  int64_t first = 0;  // a multiple of kTilePaths
  int64_t paths = 0;
};
std::vector<PathRange> TilesOfPaths(int64_t paths);

// The parts of Tile and PathTile that all places of a tile of paths have in common. `memory` is the
// request's range of the buffer pool, `context` the context's K and V.
kernels::cuda::Tile TileOfPaths(const TileMemory& layout, char* memory, uint16_t* context,
                                int64_t context_rows, PathRange paths);
kernels::cuda::PathTile PathTileOf(const TileMemory& layout, char* memory, const TileSpec& spec,
                                   PathRange paths);

// Copies the order of the targets and the given values, [T, paths] of each tile, to where the two
// say.
void UploadTile(const TileMemory& layout, char* memory, const TileSpec& spec,
                const std::vector<float>& values, Device& device);

// Checks what a TileSpec promises. REQUIRES otherwise: the process ends.
void RequireTile(const TileSpec& tile, int64_t most_paths);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_PATH_BUFFER_H_
