#include "engine/backend/cuda/density_work.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cuda/layer_pass.h"
#include "engine/backend/flop_model.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

using kernels::cuda::PathTile;
using kernels::cuda::Tile;

namespace {

// Returns the average rows of a row tile: a query row and a buffer token of each path.
double RowsOfTile(int64_t paths, size_t path_tiles) {
  return 2 * static_cast<double>(paths) / static_cast<double>(path_tiles);
}

}  // namespace

int64_t DensityPaths(int64_t query_rows, int multiprocessors) {
  constexpr int64_t kMostTiles = 16;
  const int64_t tiles = CeilDiv(2 * int64_t{multiprocessors}, query_rows);
  return std::min(tiles, kMostTiles) * kernels::cuda::kTilePaths;
}

DensityWork::DensityWork(DensitySpec spec, Device& device)
    : spec_(std::move(spec)),
      model_(AsDeviceModel(*spec_.tile.context->model)),
      query_rows_(spec_.tile.query_rows->rows()),
      layout_(model_.shape(), query_rows_, spec_.tile.paths, PathBufferLayout::Use::kDensity),
      memory_(device.BufferAt(spec_.buffer)),
      path_tiles_(TilesOfPaths(spec_.tile.paths)),
      schedule_(DensityPhaseFlops(model_.config(), spec_.tile.context->rows, query_rows_,
                                  RowsOfTile(spec_.tile.paths, path_tiles_.size())),
                layout_.row_tiles, ChunkTiles(model_, device)),
      log_densities_(query_rows_ * spec_.tile.paths) {
  RequireTile(spec_.tile, DensityPaths(query_rows_, device.properties().multiprocessors));
  Require(spec_.values.size() == log_densities_.size(), "values is [T, paths]");
  Require(spec_.buffer.bytes >= layout_.bytes, "the buffer range holds what is kept");
  if (spec_.tile.keep_mixtures) {
    mixtures_ = Mixtures(query_rows_ * spec_.tile.paths, model_.shape().components);
  }
  UploadTile(layout_, memory_, spec_.tile, spec_.values, device);
  UploadRowTiles(device);
}

// A kernel reads the value of path p of a tile from values[position * tile.paths + p], and stores
// its results at [(position - first_emitted) * tile.paths + p]. The arrays contain the paths of all
// tiles, so the row of a position is longer. Therefore each position has its own pointers.
void DensityWork::UploadRowTiles(Device& device) {
  const ResidentContext& context = *spec_.tile.context;
  const int64_t all_paths = spec_.tile.paths;
  std::vector<Tile> tiles;
  std::vector<PathTile> paths;
  for (const PathRange& of_tile : path_tiles_) {
    Tile tile = TileOfPaths(layout_, memory_, device.ContextAt(context.kv), context.rows, of_tile);
    const PathTile path_tile = PathTileOf(layout_, memory_, spec_.tile, of_tile);
    for (int64_t t = 0; t < query_rows_; ++t) {
      const auto position = static_cast<int32_t>(t);
      // No row attends to the token at the last position.
      const bool token = t < layout_.capacity;
      tile.visible_query = position;
      tile.visible_buffer = token ? position + 1 : position;
      tile.append_position = token ? position : -1;
      tiles.push_back(tile);
      PathTile path = path_tile;
      path.values += t * (all_paths - of_tile.paths);
      path.position = position;
      path.token_position = tile.append_position;
      path.first_emitted = position;
      const int64_t first = t * all_paths + of_tile.first;
      path.emitted_densities = layout_.densities.At(memory_) + first;
      if (spec_.tile.keep_mixtures) {
        path.emitted_mixtures =
            layout_.mixtures.At(memory_) + first * 3 * model_.shape().components;
      }
      paths.push_back(path);
    }
  }
  set_ = {.tiles = layout_.tiles.At(memory_),
          .paths = layout_.path_tiles.At(memory_),
          .x = layout_.x.At(memory_),
          .q = layout_.q.At(memory_),
          .count = static_cast<int32_t>(layout_.row_tiles),
          .largest_context = context.rows};
  device.Upload(set_.tiles, tiles.data(), set_.count * static_cast<int64_t>(sizeof(Tile)));
  device.Upload(set_.paths, paths.data(), set_.count * static_cast<int64_t>(sizeof(PathTile)));
}

MixtureSpan DensityWork::mixture(int64_t path, int64_t position) const {
  Require(done(), "the paths are done");
  return mixtures_.Get(position * spec_.tile.paths + path);
}

void DensityWork::Run(int64_t max_steps, const LaunchWorkspace& launch) {
  const Forward forward(model_, launch);
  for (; max_steps > 0 && !done() && launch.device.status().ok(); --max_steps) {
    schedule_.BeginBatch(1);
    const TileSet set = PartOf(set_, model_.shape(), schedule_.RowsOf(0));
    if (schedule_.phase() == 0) {
      forward.EmbedPaths(set);
      forward.PreAttention(0, set);
    } else {
      RunPhase(forward, schedule_.phase(), model_.shape().layers, set, nullptr);
    }
    schedule_.EndBatch();
  }
  if (done()) Download(launch.device);
}

void DensityWork::Download(Device& device) {
  device.Download(log_densities_.data(), layout_.densities.At(memory_),
                  static_cast<int64_t>(log_densities_.size() * sizeof(double)));
  if (!spec_.tile.keep_mixtures) return;
  raw_mixtures_.resize(log_densities_.size() * 3 * model_.shape().components);
  device.Download(raw_mixtures_.data(), layout_.mixtures.At(memory_),
                  static_cast<int64_t>(raw_mixtures_.size() * sizeof(float)));
}

void DensityWork::Collect() {
  if (!done()) return;
  mixtures_.Set(0, raw_mixtures_);
  raw_mixtures_ = {};
}

}  // namespace chorale::cuda
