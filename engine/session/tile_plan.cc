#include "engine/session/tile_plan.h"

#include <algorithm>

#include "base/integer_math.h"
#include "engine/backend/flop_model.h"

namespace chorale {
namespace {

constexpr int64_t kPredictedRows = 128;  // of one PredictWork

int64_t MostTilePaths(const Backend& backend, const ModelConfig& config, int64_t positions,
                      WorkKind work) {
  if (work == WorkKind::kPredict) return kPredictedRows;
  return work == WorkKind::kDensity ? backend.density_paths(config, positions)
                                    : backend.tile_paths();
}

// Returns the paths of each tile of paths of one length. If memory is short, a density uses smaller
// tiles: running at all is more important than the speed of many tiles at once. `preferred_bytes`
// is the memory that a tile should not exceed.
int64_t TilePaths(const Backend& backend, const ModelConfig& config, const EqualPaths& length,
                  WorkKind work, int64_t preferred_bytes) {
  const int64_t most =
      std::min(length.paths, MostTilePaths(backend, config, length.positions, work));
  if (work != WorkKind::kDensity) return most;
  const int64_t unit = backend.tile_paths();
  const int64_t fewest = std::min(most, unit);
  int64_t paths = most;
  while (paths > fewest &&
         TileBytes(backend, config, length.positions, paths, work) > preferred_bytes) {
    paths = std::max(fewest, (paths - 1) / unit * unit);
  }
  return paths;
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

double PathFlops(const ModelConfig& config, int64_t context_rows, const EqualPaths& length,
                 WorkKind work) {
  switch (work) {
    case WorkKind::kDecode:
      return DecodeFlops(config, length.paths, context_rows, 0, length.positions);
    case WorkKind::kDensity:
      return DensityFlops(config, context_rows, length.positions, length.paths);
    case WorkKind::kPredict:
      return PredictFlops(config, context_rows, length.paths);
    default:
      break;
  }
  return 0;
}

TilePlan PlanTiles(const Backend& backend, const ModelConfig& config, const RequestedPaths& request,
                   int64_t max_slots) {
  TilePlan plan;
  plan.rows_bytes = backend.RowsBytes(config, request.query_rows);
  const int64_t pool = backend.buffer_pool_bytes();
  const int64_t left = pool - plan.rows_bytes;
  const int64_t preferred = std::min(pool / 2, left);
  for (const EqualPaths& length : request.lengths) {
    const int64_t paths = TilePaths(backend, config, length, request.work, preferred);
    plan.lengths.push_back({length, paths, CeilDiv(length.paths, paths)});
    plan.tiles += plan.lengths.back().tiles;
    plan.slot_bytes = std::max(plan.slot_bytes,
                               TileBytes(backend, config, length.positions, paths, request.work));
  }
  plan.slots = std::min(plan.tiles, max_slots);
  if (plan.slot_bytes > left) {
    plan.slots = 0;
  } else if (plan.slot_bytes > 0) {
    plan.slots = std::clamp<int64_t>(preferred / plan.slot_bytes, 1, plan.slots);
  }
  return plan;
}

int64_t TilePlan::MostTilePaths() const {
  int64_t most = 0;
  for (const EqualTiles& equal : lengths) most = std::max(most, equal.tile_paths);
  return most;
}

int64_t TilePlan::TilesOf(int64_t count) const {
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += lengths[i].tiles;
  return sum;
}

PlannedTile TilePlan::tile(int64_t index) const {
  int64_t first_path = 0;
  auto equal = lengths.begin();
  for (; index >= equal->tiles; ++equal) {
    index -= equal->tiles;
    first_path += equal->length.paths;
  }
  const int64_t first = index * equal->tile_paths;
  return {first_path + first, std::min(equal->tile_paths, equal->length.paths - first),
          equal->length.positions};
}

}  // namespace chorale
