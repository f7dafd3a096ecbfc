#include "engine/backend/cuda/path_buffer.h"

#include <algorithm>
#include <bit>

#include "base/integer_math.h"
#include "engine/backend/cuda/query_rows_work.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

using kernels::cuda::kTileRows;
using kernels::cuda::PathTile;
using kernels::cuda::Tile;

PathBufferLayout::PathBufferLayout(const KernelShape& shape, int64_t positions, int64_t paths,
                                   Use use)
    : capacity(positions - 1) {
  if (use == Use::kDensity) path_positions = PathPositions(shape, positions);
  if (path_positions > 0) {
    capacity = 0;
    tile_paths = kernels::cuda::kTilePaths / path_positions;
  }
  ArenaLayout arena(kAlignment);
  const int64_t kv_elements = shape.layers * shape.BufferElements(capacity, paths);
  kv_path_elements = kv_elements / kernels::cuda::BufferPaths(paths);
  kv = arena.Take<uint16_t>(kv_elements);
  values = arena.Take<float>(positions * paths);
  order = arena.Take<int32_t>(positions * paths);
  if (use == Use::kDecode) path_numbers = arena.Take<uint64_t>(paths);
  if (use == Use::kDensity) {
    row_tiles = CeilDiv(paths, tile_paths) * (path_positions > 0 ? 1 : positions);
    x = arena.Take<float>(row_tiles * kTileRows * shape.width);
    if (path_positions == 0) {
      q = arena.Take<uint16_t>(row_tiles * kTileRows * shape.q_stride);
    }
    tiles = arena.Take<Tile>(row_tiles);
    path_tiles = arena.Take<PathTile>(row_tiles);
    densities = arena.Take<double>(positions * paths);
    mixtures = arena.Take<float>(positions * paths * 3 * shape.components);
  }
  bytes = arena.bytes();
}

std::vector<PathRange> TilesOfPaths(int64_t paths, int64_t tile_paths) {
  std::vector<PathRange> tiles;
  for (int64_t first = 0; first < paths; first += tile_paths) {
    tiles.push_back({first, std::min(tile_paths, paths - first)});
  }
  return tiles;
}

int32_t PathPositions(const KernelShape& shape, int64_t positions) {
  constexpr int64_t kFewest = kernels::cuda::kGroupPaths;
  if (!shape.has_layers_kernel || positions <= kFewest / 2 ||
      positions > kernels::cuda::kTilePaths) {
    return 0;
  }
  return static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(std::max(positions, kFewest))));
}

Tile TileOfPaths(const PathBufferLayout& layout, char* memory, const ContextKeys& context,
                 PathRange paths) {
  Tile tile = TileOf(context);
  const int64_t pairs = paths.paths * std::max(layout.path_positions, 1);
  tile.groups = static_cast<int32_t>(CeilDiv(pairs, kernels::cuda::kGroupPaths));
  tile.path_positions = layout.path_positions;
  if (layout.capacity > 0) {
    tile.buffer = layout.kv.At(memory) + paths.first * layout.kv_path_elements;
    tile.buffer_paths = static_cast<int32_t>(kernels::cuda::BufferPaths(paths.paths));
    tile.buffer_capacity = static_cast<int32_t>(layout.capacity);
  }
  return tile;
}

PathTile PathTileOf(const PathBufferLayout& layout, char* memory, const TileSpec& spec,
                    PathRange paths) {
  PathTile tile;
  tile.encodings = AsEncodedQueryRows(*spec.query_rows).encodings();
  if (!spec.order.empty()) {
    tile.order = layout.order.At(memory) + paths.first * spec.positions();
  }
  tile.values = layout.values.At(memory) + paths.first;
  tile.paths = static_cast<int32_t>(paths.paths);
  tile.stride = static_cast<int32_t>(spec.paths);
  if (layout.path_positions > 0) tile.path_positions = layout.path_positions;
  tile.positions = static_cast<int32_t>(spec.positions());
  return tile;
}

void UploadTile(const PathBufferLayout& layout, char* memory, const TileSpec& spec,
                const std::vector<float>& values, Device& device) {
  device.Upload(layout.order.At(memory), spec.order.data(),
                static_cast<int64_t>(spec.order.size() * sizeof(int32_t)));
  device.Upload(layout.values.At(memory), values.data(),
                static_cast<int64_t>(values.size() * sizeof(float)));
}

}  // namespace chorale::cuda
