#include "engine/backend/cuda/density_work.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/layer_pass.h"
#include "engine/backend/flop_model.h"
#include "engine/backend/tile_requirements.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

using kernels::cuda::PathTile;
using kernels::cuda::Tile;

namespace {

// FLOPs of an average row tile in each phase of its schedule: a single one for whole paths. Each
// path has a query row and a buffer token at each position.
std::vector<double> PhaseFlops(const ModelConfig& config, const TileSpec& spec,
                               const PathBufferLayout& layout) {
  const int64_t positions = spec.positions();
  const double rows = 2 * static_cast<double>(spec.paths * positions);
  std::vector<double> flops = DensityPhaseFlops(config, spec.context->shape.keys(), positions,
                                                rows / static_cast<double>(layout.row_tiles));
  if (layout.path_positions == 0) return flops;
  return {std::accumulate(flops.begin(), flops.end(), 0.0)};
}

}  // namespace

int64_t DensityPaths(const KernelShape& shape, int64_t positions, int multiprocessors) {
  if (const int32_t path_positions = PathPositions(shape, positions); path_positions > 0) {
    const int64_t paths = 4 * int64_t{multiprocessors} * kernels::cuda::kTilePaths / path_positions;
    return std::max(paths / kernels::cuda::kTilePaths, int64_t{1}) * kernels::cuda::kTilePaths;
  }
  constexpr int64_t kMostTiles = 16;
  const int64_t tiles = CeilDiv(2 * int64_t{multiprocessors}, positions);
  return std::min(tiles, kMostTiles) * kernels::cuda::kTilePaths;
}

DensityWork::DensityWork(DensitySpec spec, Device& device)
    : spec_(std::move(spec)),
      model_(AsDeviceModel(*spec_.tile.context->model)),
      positions_(RequirePositions(spec_.tile)),
      layout_(model_.shape(), positions_, spec_.tile.paths, PathBufferLayout::Use::kDensity),
      memory_(device.BufferAt(spec_.buffer)),
      schedule_(PhaseFlops(model_.config(), spec_.tile, layout_), layout_.row_tiles,
                ChunkTiles(model_, device)),
      log_densities_(positions_ * spec_.tile.paths) {
  Require(spec_.tile.paths <=
              DensityPaths(model_.shape(), positions_, device.properties().multiprocessors),
          "a density has at most density_paths() paths");
  Require(spec_.values.size() == log_densities_.size(), "values is [P, paths]");
  Require(spec_.buffer.bytes >= layout_.bytes, "the buffer range holds what is kept");
  if (spec_.tile.keeps_mixtures()) {
    mixtures_ = Mixtures(positions_ * spec_.tile.paths, model_.shape().components);
  }
  UploadTile(layout_, memory_, spec_.tile, spec_.values, device);
  UploadRowTiles(device);
}

void DensityWork::UploadRowTiles(Device& device) {
  const ResidentContext& context = *spec_.tile.context;
  std::vector<Tile> tiles;
  std::vector<PathTile> paths;
  for (const PathRange& of_tile : TilesOfPaths(spec_.tile.paths, layout_.tile_paths)) {
    Tile tile = TileOfPaths(layout_, memory_, KeysOf(context, model_.shape(), device), of_tile);
    PathTile path = PathTileOf(layout_, memory_, spec_.tile, of_tile);
    path.first_drawn = path.positions;  // none
    path.emitted_densities = layout_.densities.At(memory_) + of_tile.first;
    if (spec_.tile.keeps_mixtures()) {
      path.emitted_mixtures =
          layout_.mixtures.At(memory_) + of_tile.first * 3 * model_.shape().components;
    }
    if (tile.path_positions > 0) {
      path.token_position = 0;
      tiles.push_back(tile);
      paths.push_back(path);
      continue;
    }
    for (int64_t t = 0; t < positions_; ++t) {
      const auto position = static_cast<int32_t>(t);
      // No row attends to the token at the last position.
      const bool token = t < layout_.capacity;
      tile.visible_query = position;
      tile.visible_buffer = token ? position + 1 : position;
      tile.append_position = token ? position : -1;
      tiles.push_back(tile);
      path.position = position;
      path.token_position = tile.append_position;
      paths.push_back(path);
    }
  }
  set_ = {.tiles = layout_.tiles.At(memory_),
          .paths = layout_.path_tiles.At(memory_),
          .x = layout_.x.At(memory_),
          .q = layout_.q.At(memory_),
          .count = static_cast<int32_t>(layout_.row_tiles),
          .largest_context = context.shape.keys(),
          .whole_paths = layout_.path_positions > 0,
          .weighted = context.shape.reduced()};
  device.Upload(set_.tiles, tiles.data(), set_.count * static_cast<int64_t>(sizeof(Tile)));
  device.Upload(set_.paths, paths.data(), set_.count * static_cast<int64_t>(sizeof(PathTile)));
}

MixtureSpan DensityWork::mixture(int64_t path, int64_t position) const {
  Require(done(), "the paths are done");
  return mixtures_.Get(position * spec_.tile.paths + path);
}

void DensityWork::Run(int64_t max_steps, const LaunchWorkspace& launch) {
  const Forward forward(model_, launch);
  while (max_steps > 0 && !done() && launch.device.status().ok()) {
    // Steps of whole paths run in common launches.
    schedule_.BeginBatch(set_.whole_paths ? max_steps : 1);
    const TileSet set = PartOf(set_, model_.shape(), schedule_.BatchRows());
    if (set.whole_paths) {
      forward.AllLayers(set);
      forward.Head(set, nullptr);
    } else if (schedule_.phase() == 0) {
      forward.EmbedPaths(set);
      forward.PreAttention(0, set);
    } else {
      RunPhase(forward, schedule_.phase(), model_.shape().layers, set, nullptr);
    }
    max_steps -= schedule_.EndBatch();
  }
  if (done()) Download(launch.device);
}

void DensityWork::Download(Device& device) {
  device.Download(log_densities_.data(), layout_.densities.At(memory_),
                  static_cast<int64_t>(log_densities_.size() * sizeof(double)));
  if (!spec_.tile.keeps_mixtures()) return;
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
