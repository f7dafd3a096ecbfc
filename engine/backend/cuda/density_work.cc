#include "engine/backend/cuda/density_work.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cuda/layer_pass.h"
#include "engine/backend/flop_model.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale::cuda {

using kernels::cuda::PathTile;
using kernels::cuda::Tile;

namespace {

// On average: a target and a buffer token of each path.
double RowsOfTile(int64_t paths, size_t path_tiles) {
  return 2 * static_cast<double>(paths) / static_cast<double>(path_tiles);
}

}  // namespace

int64_t DensityPaths(int64_t targets, int multiprocessors) {
  constexpr int64_t kMostTiles = 16;
  const int64_t tiles = CeilDiv(2 * int64_t{multiprocessors}, targets);
  return std::min(tiles, kMostTiles) * kernels::cuda::kTilePaths;
}

DensityWork::DensityWork(DensitySpec spec, Device& device)
    : spec_(std::move(spec)),
      model_(AsDeviceModel(*spec_.tile.context->model)),
      targets_(spec_.tile.targets->rows()),
      layout_(model_.shape(), targets_, spec_.tile.paths, PathBufferLayout::Use::kDensity),
      memory_(device.BufferAt(spec_.buffer)),
      path_tiles_(TilesOfPaths(spec_.tile.paths)),
      schedule_(DensityPhaseFlops(model_.config(), spec_.tile.context->rows, targets_,
                                  RowsOfTile(spec_.tile.paths, path_tiles_.size())),
                layout_.row_tiles, ChunkTiles(device)),
      log_densities_(targets_ * spec_.tile.paths) {
  RequireTile(spec_.tile, DensityPaths(targets_, device.properties().multiprocessors));
  Require(spec_.values.size() == log_densities_.size(), "values is [paths, T]");
  Require(spec_.buffer.bytes >= layout_.bytes, "the buffer range holds what is kept");
  const int64_t paths = spec_.tile.paths;
  if (spec_.tile.keep_mixtures) {
    mixtures_ = Mixtures(targets_ * paths, model_.shape().components);
  }
  std::vector<float> by_place(spec_.values.size());
  for (const PathRange& tile : path_tiles_) {
    for (int64_t p = 0; p < tile.paths; ++p) {
      for (int64_t t = 0; t < targets_; ++t) {
        by_place[AtPlace(tile, p, t)] = spec_.values[(tile.first + p) * targets_ + t];
      }
    }
  }
  UploadTile(layout_, memory_, spec_.tile, by_place, device);
  UploadPlaces(device);
}

void DensityWork::UploadPlaces(Device& device) {
  const ResidentContext& context = *spec_.tile.context;
  std::vector<Tile> tiles;
  std::vector<PathTile> paths;
  for (const PathRange& of_tile : path_tiles_) {
    Tile tile = TileOfPaths(layout_, memory_, device.ContextAt(context.kv), context.rows, of_tile);
    PathTile path = PathTileOf(layout_, memory_, spec_.tile, of_tile);
    const int64_t first = AtPlace(of_tile, 0, 0);
    path.emitted_densities = layout_.densities.At(memory_) + first;
    if (spec_.tile.keep_mixtures) {
      path.emitted_mixtures = layout_.mixtures.At(memory_) + first * 3 * model_.shape().components;
    }
    for (int64_t t = 0; t < targets_; ++t) {
      const auto place = static_cast<int32_t>(t);
      // The token at the last place has nobody to see it.
      const bool token = t < layout_.capacity;
      tile.visible_target = place;
      tile.visible_buffer = token ? place + 1 : place;
      tile.append_position = token ? place : -1;
      tiles.push_back(tile);
      path.position = place;
      path.token_position = tile.append_position;
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

MixtureSpan DensityWork::mixture(int64_t path, int64_t place) const {
  Require(done(), "the paths are done");
  const PathRange& tile = path_tiles_[path / kernels::cuda::kTilePaths];
  return mixtures_.Get(AtPlace(tile, path - tile.first, place));
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
  densities_by_place_.resize(log_densities_.size());
  device.Download(densities_by_place_.data(), layout_.densities.At(memory_),
                  static_cast<int64_t>(densities_by_place_.size() * sizeof(double)));
  if (!spec_.tile.keep_mixtures) return;
  raw_mixtures_.resize(log_densities_.size() * 3 * model_.shape().components);
  device.Download(raw_mixtures_.data(), layout_.mixtures.At(memory_),
                  static_cast<int64_t>(raw_mixtures_.size() * sizeof(float)));
}

void DensityWork::Collect() {
  if (!done()) return;
  for (const PathRange& tile : path_tiles_) {
    for (int64_t p = 0; p < tile.paths; ++p) {
      for (int64_t t = 0; t < targets_; ++t) {
        log_densities_[(tile.first + p) * targets_ + t] = densities_by_place_[AtPlace(tile, p, t)];
      }
    }
  }
  mixtures_.Set(0, raw_mixtures_);
  densities_by_place_ = {};
  raw_mixtures_ = {};
}

}  // namespace chorale::cuda
