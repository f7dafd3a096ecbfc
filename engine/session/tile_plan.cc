#include "engine/session/tile_plan.h"

namespace chorale {
namespace {

constexpr int64_t kPredictedRows = 128;  // of one PredictWork

int64_t MostTilePaths(const Backend& backend, const ModelConfig& config,
                      const RequestedPaths& request) {
  if (request.work == WorkKind::kPredict) return kPredictedRows;
  return request.work == WorkKind::kDensity ? backend.density_paths(config, request.positions)
                                            : backend.tile_paths();
}

}  // namespace

int64_t TileBytes(const Backend& backend, const ModelConfig& config, int64_t positions,
                  int64_t paths, WorkKind work) {
  switch (work) {
    case WorkKind::kDecode:
      return backend.BufferBytes(config, positions, paths);
    case WorkKind::kDensity:
      return backend.DensityBytes(config, positions, paths);
    case WorkKind::kPredict:
      return backend.PredictBytes(config, paths);
    default:
      break;
  }
  return 0;
}

TilePlan PlanTiles(const Backend& backend, const ModelConfig& config, const RequestedPaths& request,
                   int64_t max_slots) {
  TilePlan plan;
  plan.paths = request.paths;
  plan.rows_bytes = backend.RowsBytes(config, request.query_rows);
  const int64_t pool = backend.buffer_pool_bytes();
  const int64_t left = pool - plan.rows_bytes;
  const auto bytes_of = [&](int64_t tile_paths) {
    return TileBytes(backend, config, request.positions, tile_paths, request.work);
  };
  plan.tile_paths = std::min(plan.paths, MostTilePaths(backend, config, request));
  // If memory is short, a density uses smaller tiles: running at all is more important than the
  // speed of many tiles at once.
  const int64_t fewest = request.work == WorkKind::kDensity
                             ? std::min(plan.tile_paths, backend.tile_paths())
                             : plan.tile_paths;
  while (plan.tile_paths > fewest && bytes_of(plan.tile_paths) > std::min(pool / 2, left)) {
    plan.tile_paths =
        std::max(fewest, (plan.tile_paths - 1) / backend.tile_paths() * backend.tile_paths());
  }
  plan.tiles = (plan.paths + plan.tile_paths - 1) / plan.tile_paths;
  plan.slots = std::min(plan.tiles, max_slots);
  plan.slot_bytes = bytes_of(plan.tile_paths);
  if (plan.slot_bytes > left) {
    plan.slots = 0;
  } else if (plan.slot_bytes > 0) {
    plan.slots = std::clamp<int64_t>(std::min(pool / 2, left) / plan.slot_bytes, 1, plan.slots);
  }
  return plan;
}

}  // namespace chorale
