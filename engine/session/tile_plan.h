// Divides the paths of a request, or the rows of a prediction, into tiles, and computes their
// buffer memory.
#ifndef CHORALE_ENGINE_SESSION_TILE_PLAN_H_
#define CHORALE_ENGINE_SESSION_TILE_PLAN_H_

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"

namespace chorale {

// Returns the bytes of a tile of `paths` paths: the K/V of a DecodeWork, or the state of a
// DensityWork between two steps. In a PredictWork, each row is a path. REQUIRES: the counts are
// positive, and `work` is one of these three kinds.
int64_t TileBytes(const Backend& backend, const ModelConfig& config, int64_t positions,
                  int64_t paths, WorkKind work);

// Paths of equal length.
struct EqualPaths {
  int64_t positions = 0;  // of each path
  int64_t paths = 0;
};

// The paths of a request, in a sequence.
struct RequestedPaths {
  int64_t query_rows = 0;
  std::vector<EqualPaths> lengths;
  WorkKind work = WorkKind::kDecode;  // or kDensity, or kPredict
};

// A part of the sequence of paths, of equal length.
struct PlannedTile {
  int64_t first_path = 0;
  int64_t paths = 0;
  int64_t positions = 0;
};

// Tiles run in their order, at most `slots` at a time, and the buffer of a slot serves one tile
// after another. So the buffer bytes of a request are exact, are known before it starts, and do not
// grow with its number of paths.
struct TilePlan {
  // Tiles of paths of equal length.
  struct EqualTiles {
    EqualPaths length;
    int64_t tile_paths = 0;  // of each tile except the last, which may have fewer
    int64_t tiles = 0;
  };

  std::vector<EqualTiles> lengths;
  int64_t tiles = 0;
  int64_t slots = 0;       // 0 if the buffer of one tile exceeds the pool
  int64_t slot_bytes = 0;  // buffer memory per slot; 0 for requests without tiles
  int64_t rows_bytes = 0;  // buffer memory of the encoded query rows, which all tiles share

  // Returns the sizes of the buffer ranges that the request needs before it starts: the ranges of
  // the slots, then the range of the query rows. Omits empty ranges.
  std::vector<int64_t> ranges() const {
    std::vector<int64_t> bytes(slot_bytes > 0 ? slots : 0, slot_bytes);
    if (rows_bytes > 0) bytes.push_back(rows_bytes);
    return bytes;
  }

  // Returns the paths of the largest tiles.
  int64_t MostTilePaths() const;
  // REQUIRES: 0 <= index < tiles.
  PlannedTile tile(int64_t index) const;
  // Returns the number of tiles of the first `count` entries of `lengths`.
  int64_t TilesOf(int64_t count) const;
};

// Returns the estimated FLOPs of the paths.
double PathFlops(const ModelConfig& config, int64_t context_rows, const EqualPaths& length,
                 WorkKind work);

// Plans the paths of a request. At most `max_slots` tiles run at a time, and no more than fit into
// half of the buffer pool, so that no request takes the whole pool; a single tile may be larger.
// REQUIRES: the counts and max_slots are positive, and there are paths.
TilePlan PlanTiles(const Backend& backend, const ModelConfig& config, const RequestedPaths& request,
                   int64_t max_slots);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_TILE_PLAN_H_
