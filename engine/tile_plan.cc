#include "engine/tile_plan.h"

namespace chorale {

int64_t TileBytes(const Backend& backend, const ModelConfig& config, int64_t targets, int64_t paths,
                  TileWork work) {
  return work == TileWork::kDecode ? backend.BufferBytes(config, targets, paths)
                                   : backend.DensityBytes(config, targets, paths);
}

TilePlan PlanTiles(const Backend& backend, const ModelConfig& config, int64_t paths,
                   int64_t targets, int64_t max_slots, TileWork work) {
  TilePlan plan;
  plan.paths = paths;
  plan.tile_paths = std::min(paths, backend.tile_paths());
  plan.tiles = (paths + plan.tile_paths - 1) / plan.tile_paths;
  plan.slots = std::min(plan.tiles, max_slots);
  plan.slot_bytes = TileBytes(backend, config, targets, plan.tile_paths, work);
  const int64_t pool = backend.buffer_pool_bytes();
  if (plan.slot_bytes > pool) {
    plan.slots = 0;
  } else {
    plan.slots = std::clamp<int64_t>(pool / 2 / plan.slot_bytes, 1, plan.slots);
  }
  return plan;
}

}  // namespace chorale
