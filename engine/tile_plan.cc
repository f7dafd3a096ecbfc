#include "engine/tile_plan.h"

namespace chorale {

TilePlan PlanTiles(const Backend& backend, const ModelConfig& config, int64_t paths,
                   int64_t targets, int64_t max_slots, TileBuffer buffer) {
  TilePlan plan;
  plan.paths = paths;
  plan.tile_paths = std::min(paths, backend.tile_paths());
  plan.tiles = (paths + plan.tile_paths - 1) / plan.tile_paths;
  plan.slots = std::min(plan.tiles, max_slots);
  if (buffer == TileBuffer::kNone) return plan;
  plan.slot_bytes = backend.BufferBytes(config, targets, plan.tile_paths);
  const int64_t pool = backend.buffer_pool_bytes();
  if (plan.slot_bytes > pool) {
    plan.slots = 0;
  } else {
    plan.slots = std::clamp<int64_t>(pool / 2 / plan.slot_bytes, 1, plan.slots);
  }
  return plan;
}

}  // namespace chorale
