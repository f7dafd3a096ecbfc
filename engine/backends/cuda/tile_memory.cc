#include "engine/backends/cuda/tile_memory.h"

#include <algorithm>

#include "engine/backends/cuda/cuda_forward.h"
#include "engine/backends/cuda/cuda_work.h"
#include "kernels/cuda/layout.h"

namespace chorale {

using kernels::cuda::kTileRows;
using kernels::cuda::PathTile;
using kernels::cuda::Tile;

TileMemory::TileMemory(const CudaShape& shape, int64_t targets, int64_t paths, Use use)
    : capacity(targets - 1) {
  const auto take = [&](int64_t size) {
    const int64_t offset = bytes;
    bytes = kernels::RoundUp(bytes + size, kCudaAlignment);
    return offset;
  };
  kv = take(shape.layers * shape.BufferElements(capacity, paths) * 2);
  values = take(targets * paths * 4);
  order = take(targets * paths * 4);
  if (use == Use::kDecode) return;
  x = take(targets * kTileRows * shape.width * 4);
  q = take(targets * kTileRows * shape.queries * 2);
  tiles = take(targets * static_cast<int64_t>(sizeof(Tile)));
  path_tiles = take(targets * static_cast<int64_t>(sizeof(PathTile)));
  densities = take(targets * paths * 8);
}

Tile TileOfPaths(const TileMemory& layout, char* memory, uint16_t* context, int64_t context_rows,
                 int64_t paths) {
  Tile tile;
  tile.context = context;
  tile.context_rows = static_cast<int32_t>(context_rows);
  tile.groups = static_cast<int32_t>(kernels::CeilDiv(paths, kernels::cuda::kGroupPaths));
  if (layout.capacity > 0) {
    tile.buffer = reinterpret_cast<uint16_t*>(memory + layout.kv);
    tile.buffer_paths = static_cast<int32_t>(kernels::cuda::BufferPaths(paths));
    tile.buffer_capacity = static_cast<int32_t>(layout.capacity);
  }
  return tile;
}

PathTile PathTileOf(const TileMemory& layout, char* memory, const TileSpec& spec) {
  PathTile tile;
  tile.encodings = AsCudaRows(*spec.targets).encodings();
  if (!spec.order.empty()) tile.order = reinterpret_cast<const int32_t*>(memory + layout.order);
  tile.values = reinterpret_cast<float*>(memory + layout.values);
  tile.paths = static_cast<int32_t>(spec.paths);
  tile.targets = static_cast<int32_t>(spec.targets->rows());
  return tile;
}

void UploadTile(const TileMemory& layout, char* memory, const TileSpec& spec,
                const std::vector<float>& values, CudaDevice& device) {
  device.Upload(memory + layout.order, spec.order.data(),
                static_cast<int64_t>(spec.order.size() * sizeof(int32_t)));
  device.Upload(memory + layout.values, values.data(),
                static_cast<int64_t>(values.size() * sizeof(float)));
}

}  // namespace chorale
