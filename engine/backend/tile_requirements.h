// What all backends require of the paths of a tile.
#ifndef CHORALE_ENGINE_BACKEND_TILE_REQUIREMENTS_H_
#define CHORALE_ENGINE_BACKEND_TILE_REQUIREMENTS_H_

#include <cstdint>

#include "engine/backend/backend.h"

namespace chorale {

// Returns tile.positions(). Ends the process if the tile has no paths or no positions, or if
// `order` is not [paths, P] of query rows.
int64_t RequirePositions(const TileSpec& tile);

// Ends the process if `path_numbers` is not [paths], or if `forced_values` is not [N, paths],
// N <= P. Call RequirePositions first.
void RequirePathValues(const DecodeSpec& spec);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_TILE_REQUIREMENTS_H_
