// How the paths of a request, or the rows of a prediction, are divided into tiles, and how much
// buffer memory that takes.
#ifndef CHORALE_ENGINE_SESSION_TILE_PLAN_H_
#define CHORALE_ENGINE_SESSION_TILE_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"

namespace chorale {

// Bytes of a tile of `paths` paths: the K/V of a DecodeWork, or the state of a DensityWork between
// two steps. For a PredictWork each row is a path. REQUIRES: the counts are positive, and `work` is
// one of these three.
int64_t TileBytes(const Backend& backend, const ModelConfig& config, int64_t targets, int64_t paths,
                  WorkKind work);

// Tiles run in their order, at most `slots` of them at a time; a slot's buffer serves one tile
// after another. So a request's buffer bytes are exact, known before it starts, and do not grow
// with its number of paths.
struct TilePlan {
  int64_t paths = 0;       // of the request
  int64_t tile_paths = 0;  // of every tile but the last, which may have fewer
  int64_t tiles = 0;
  int64_t slots = 0;       // 0 when not even one tile's buffer fits the pool
  int64_t slot_bytes = 0;  // of buffer memory, per slot; 0 for requests without tiles
  int64_t rows_bytes = 0;  // of buffer memory, for the encoded rows that all tiles share

  // Of buffer memory, what the request needs before it starts: that of the slots, then that of the
  // rows; without those that are empty.
  std::vector<int64_t> ranges() const {
    std::vector<int64_t> bytes(slot_bytes > 0 ? slots : 0, slot_bytes);
    if (rows_bytes > 0) bytes.push_back(rows_bytes);
    return bytes;
  }

  int64_t first_path(int64_t tile) const { return tile * tile_paths; }
  int64_t paths_of(int64_t tile) const { return std::min(tile_paths, paths - first_path(tile)); }
};

// `paths` paths over `targets` targets, with up to `max_slots` tiles at a time, but no more than
// fit in half of the buffer pool if more than one is needed, so that no wide request takes it all.
// REQUIRES: paths, targets and max_slots are positive.
TilePlan PlanTiles(const Backend& backend, const ModelConfig& config, int64_t paths,
                   int64_t targets, int64_t max_slots, WorkKind work);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_TILE_PLAN_H_
