#include "engine/backend/cuda/work.h"

#include <algorithm>

#include "base/integer_math.h"
#include "base/require.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale {

const CudaEncodedRows& AsCudaRows(const EncodedRows& rows) {
  const auto* cuda_rows = dynamic_cast<const CudaEncodedRows*>(&rows);
  Require(cuda_rows != nullptr, "the rows belong to the GPU backend");
  return *cuda_rows;
}

MixtureSpan CudaMixtures::Get(int64_t row) const {
  const absl::Span<const double> all =
      absl::MakeConstSpan(values_).subspan(row * 3 * components_, 3 * components_);
  return {.mean = all.subspan(0, components_),
          .std = all.subspan(components_, components_),
          .log_weight = all.subspan(2 * components_)};
}

int64_t CudaDensityPaths(int64_t targets, int multiprocessors) {
  constexpr int64_t kMostTiles = 16;
  const int64_t tiles = CeilDiv(2 * int64_t{multiprocessors}, targets);
  return std::min(tiles, kMostTiles) * kernels::cuda::kTilePaths;
}

void RequireTile(const TileSpec& tile, int64_t most_paths) {
  const int64_t targets = tile.targets->rows();
  Require(tile.paths >= 1 && tile.paths <= most_paths,
          "there are as many paths as a tile may have");
  Require(targets >= 1, "a tile has targets");
  Require(tile.order.empty() || static_cast<int64_t>(tile.order.size()) == tile.paths * targets,
          "order is [paths, T]");
}

}  // namespace chorale
