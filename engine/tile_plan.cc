#include "engine/tile_plan.h"

namespace chorale {
namespace {

constexpr int64_t kPredictedRows = 128;  // of one PredictWork

}  // namespace

int64_t TileBytes(const Backend& backend, const ModelConfig& config, int64_t targets, int64_t paths,
                  TileWork work) {
  switch (work) {
    case TileWork::kDecode:
      return backend.BufferBytes(config, targets, paths);
    case TileWork::kDensity:
      return backend.DensityBytes(config, targets, paths);
    case TileWork::kPredict:
      return backend.PredictBytes(config, paths);
  }
  return 0;
}

TilePlan PlanTiles(const Backend& backend, const ModelConfig& config, int64_t paths,
                   int64_t targets, int64_t max_slots, TileWork work) {
  TilePlan plan;
  plan.paths = paths;
  plan.tile_paths =
      std::min(paths, work == TileWork::kPredict ? kPredictedRows : backend.tile_paths());
  plan.tiles = (paths + plan.tile_paths - 1) / plan.tile_paths;
  plan.slots = std::min(plan.tiles, max_slots);
  plan.slot_bytes = TileBytes(backend, config, targets, plan.tile_paths, work);
  plan.rows_bytes = backend.RowsBytes(config, targets);
  const int64_t pool = backend.buffer_pool_bytes();
  const int64_t left = pool - plan.rows_bytes;
  if (plan.slot_bytes > left) {
    plan.slots = 0;
  } else if (plan.slot_bytes > 0) {
    plan.slots = std::clamp<int64_t>(std::min(pool / 2, left) / plan.slot_bytes, 1, plan.slots);
  }
  return plan;
}

}  // namespace chorale
