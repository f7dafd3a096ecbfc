#include "engine/backend/tile_requirements.h"

#include <algorithm>

#include "base/require.h"

namespace chorale {

int64_t RequirePositions(const TileSpec& tile) {
  Require(tile.paths >= 1, "a tile has paths");
  const int64_t positions = tile.positions();
  Require(positions >= 1, "paths have positions");
  if (tile.order.empty()) return positions;
  Require(static_cast<int64_t>(tile.order.size()) == tile.paths * positions, "order is [paths, P]");
  const auto [least, most] = std::minmax_element(tile.order.begin(), tile.order.end());
  Require(*least >= 0 && *most < tile.query_rows->rows(), "order consists of query rows");
  return positions;
}

void RequirePathValues(const DecodeSpec& spec) {
  Require(static_cast<int64_t>(spec.path_numbers.size()) == spec.tile.paths,
          "path_numbers is [paths]");
  const int64_t forced = spec.forced_positions();
  Require(static_cast<int64_t>(spec.forced_values.size()) == forced * spec.tile.paths &&
              forced <= spec.tile.positions(),
          "forced_values is [N, paths], N <= P");
}

}  // namespace chorale
