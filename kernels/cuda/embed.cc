#include "kernels/cuda/embed.h"

#include "kernels/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateEmbedPaths(const EmbedPathsParams& p) {
  if (absl::Status s = RequireNotNull({{"tiles", p.tiles},
                                       {"paths", p.paths},
                                       {"offsets", p.offsets},
                                       {"y_weight", p.y_weight},
                                       {"x", p.x}});
      !s.ok()) {
    return s;
  }
  return RequirePositive({{"tile_count", p.tile_count}, {"width", p.width}, {"places", p.places}});
}

absl::Status ValidateEmbedRows(const EmbedRowsParams& p) {
  if (absl::Status s = RequireNotNull(
          {{"encodings", p.encodings}, {"offset", p.offset}, {"y_weight", p.y_weight}, {"x", p.x}});
      !s.ok()) {
    return s;
  }
  return RequirePositive({{"rows", p.rows}, {"width", p.width}});
}

}  // namespace chorale::kernels::cuda
