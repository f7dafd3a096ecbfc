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

std::vector<Tile> TilesOfRows(int64_t rows, const ContextKeys& context) {
  std::vector<Tile> tiles(CeilDiv(rows, kTileRows), TileOf(context));
  for (size_t i = 0; i < tiles.size(); ++i) {
    const int64_t in_tile =
        std::min<int64_t>(kTileRows, rows - static_cast<int64_t>(i) * kTileRows);
    tiles[i].groups = static_cast<int32_t>(CeilDiv(in_tile, kernels::cuda::kGroupRows));
  }
  return tiles;
}

std::vector<Tile> TilesOfContextRows(RowRange rows, const ContextKeys& context) {
  const int64_t before = rows.first % kTileRows;
  const int64_t in_tiles = before + rows.rows;
  std::vector<Tile> tiles = TilesOfRows(in_tiles, context);
  for (size_t i = 0; i < tiles.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) * kTileRows;
    tiles[i].groups = kernels::cuda::kTileGroups;  // all groups, to fill the last key block
    tiles[i].first_row = static_cast<int32_t>(rows.first - before + row);
    tiles[i].encode_rows = static_cast<int32_t>(std::min<int64_t>(kTileRows, in_tiles - row));
  }
  tiles.front().encode_first = static_cast<int32_t>(before);
  return tiles;
}

// Converts the encodings to x in place. The memory of q is not used until then, and holds y.
void EmbedContextRows(const DeviceModel& model, const ContextRows& rows, const TileSet& set,
                      const LaunchWorkspace& launch) {
  const auto count = static_cast<int64_t>(rows.y.size());
  model.row_encoder().Encode(rows.encoder_state, rows.features, rows.first, count, set.x, launch);
  float* const y = reinterpret_cast<float*>(set.q);
  launch.device.Upload(y, rows.y.data(), count * static_cast<int64_t>(sizeof(float)));
  Forward(model, launch).EmbedRows(set, set.x, count, model.context_offset(), y);
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
