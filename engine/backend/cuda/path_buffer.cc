#include "engine/backend/cuda/path_buffer.h"

#include <algorithm>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cuda/targets_work.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale::cuda {

using kernels::cuda::kTileRows;
using kernels::cuda::PathTile;
using kernels::cuda::Tile;

namespace {

// The offset of `size` bytes behind the `bytes` that are taken.
int64_t Take(int64_t size, int64_t& bytes) {
  const int64_t offset = bytes;
  bytes = RoundUp(bytes + size, kAlignment);
  return offset;
}

}  // namespace

TileMemory::TileMemory(const KernelShape& shape, int64_t targets, int64_t paths, Use use)
    : capacity(targets - 1) {
  const auto take = [&](int64_t size) { return Take(size, bytes); };
  const int64_t kv_bytes = shape.layers * shape.BufferElements(capacity, paths) * 2;
  kv = take(kv_bytes);
  kv_path_bytes = kv_bytes / kernels::cuda::BufferPaths(paths);
  values = take(targets * paths * 4);
  order = take(targets * paths * 4);
  if (use == Use::kDecode) return;
  rows_tiles = targets * CeilDiv(paths, kernels::cuda::kTilePaths);
  x = take(rows_tiles * kTileRows * shape.width * 4);
  q = take(rows_tiles * kTileRows * shape.queries * 2);
  tiles = take(rows_tiles * static_cast<int64_t>(sizeof(Tile)));
  path_tiles = take(rows_tiles * static_cast<int64_t>(sizeof(PathTile)));
  densities = take(targets * paths * 8);
  mixtures = take(targets * paths * 3 * shape.components * 4);
}

std::vector<PathRange> TilesOfPaths(int64_t paths) {
  std::vector<PathRange> tiles;
  for (int64_t first = 0; first < paths; first += kernels::cuda::kTilePaths) {
    tiles.push_back({first, std::min<int64_t>(kernels::cuda::kTilePaths, paths - first)});
  }
  return tiles;
}

Tile TileOfPaths(const TileMemory& layout, char* memory, uint16_t* context, int64_t context_rows,
                 PathRange paths) {
  Tile tile;
  tile.context = context;
  tile.context_rows = static_cast<int32_t>(context_rows);
  tile.groups = static_cast<int32_t>(CeilDiv(paths.paths, kernels::cuda::kGroupPaths));
  if (layout.capacity > 0) {
    char* const buffer = memory + layout.kv + paths.first * layout.kv_path_bytes;
    tile.buffer = reinterpret_cast<uint16_t*>(buffer);
    tile.buffer_paths = static_cast<int32_t>(kernels::cuda::BufferPaths(paths.paths));
    tile.buffer_capacity = static_cast<int32_t>(layout.capacity);
  }
  return tile;
}

PathTile PathTileOf(const TileMemory& layout, char* memory, const TileSpec& spec, PathRange paths) {
  const int64_t first = paths.first * spec.targets->rows();
  PathTile tile;
  tile.encodings = AsEncodedTargets(*spec.targets).encodings();
  if (!spec.order.empty()) {
    tile.order = reinterpret_cast<const int32_t*>(memory + layout.order) + first;
  }
  tile.values = reinterpret_cast<float*>(memory + layout.values) + first;
  tile.paths = static_cast<int32_t>(paths.paths);
  tile.targets = static_cast<int32_t>(spec.targets->rows());
  return tile;
}

void UploadTile(const TileMemory& layout, char* memory, const TileSpec& spec,
                const std::vector<float>& values, Device& device) {
  device.Upload(memory + layout.order, spec.order.data(),
                static_cast<int64_t>(spec.order.size() * sizeof(int32_t)));
  device.Upload(memory + layout.values, values.data(),
                static_cast<int64_t>(values.size() * sizeof(float)));
}

void RequireTile(const TileSpec& tile, int64_t most_paths) {
  const int64_t targets = tile.targets->rows();
  Require(tile.paths >= 1 && tile.paths <= most_paths,
          "there are as many paths as a tile may have");
  Require(targets >= 1, "a tile has targets");
  Require(tile.order.empty() || static_cast<int64_t>(tile.order.size()) == tile.paths * targets,
          "order is [paths, T]");
}

}  // namespace chorale::cuda
