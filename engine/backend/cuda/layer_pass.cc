#include "engine/backend/cuda/layer_pass.h"

#include <algorithm>

#include "base/integer_math.h"
#include "engine/backend/cuda/encode_attention.h"
#include "kernels/cuda/attention/encode_attention.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

using kernels::cuda::kTileRows;
using kernels::cuda::Tile;

int64_t ChunkTiles(const DeviceModel& model, const Device& device) {
  const int64_t tiles = std::max<int64_t>(64, device.properties().multiprocessors);
  return std::min(tiles, model.layer_form().most_tiles());
}

int64_t EncodeChunkTiles(const DeviceModel& model, const Device& device) {
  const KernelShape& shape = model.shape();
  if (!HasWgmmaAttention(shape, device)) return ChunkTiles(model, device);
  return std::min(
      kernels::cuda::EncodeLaunchTiles(shape.heads, device.properties().multiprocessors),
      model.layer_form().most_tiles());
}

std::vector<Tile> TilesOfRows(int64_t rows, uint16_t* context, int64_t context_rows) {
  std::vector<Tile> tiles(CeilDiv(rows, kTileRows));
  for (size_t i = 0; i < tiles.size(); ++i) {
    const int64_t in_tile =
        std::min<int64_t>(kTileRows, rows - static_cast<int64_t>(i) * kTileRows);
    tiles[i].context = context;
    tiles[i].context_rows = static_cast<int32_t>(context_rows);
    tiles[i].groups = static_cast<int32_t>(CeilDiv(in_tile, kernels::cuda::kGroupRows));
  }
  return tiles;
}

TileSet PartOf(const TileSet& set, const KernelShape& shape, RowRange tiles) {
  return set.Part(shape, tiles.first, tiles.rows);
}

void RunPhase(const Forward& forward, int64_t phase, int64_t layers, const TileSet& set,
              float* mixtures) {
  forward.AttentionAndMlp(phase - 1, set);
  if (phase == layers) forward.Head(set, mixtures);
}

}  // namespace chorale::cuda
