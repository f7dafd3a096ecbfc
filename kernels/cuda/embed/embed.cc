#include "kernels/cuda/embed/embed.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

static absl::Status RequireWidth(int64_t width) {
  if (width > 0 && width % 4 == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("width is ", width, ", must be a positive multiple of 4"));
}

absl::Status ValidateEmbedPaths(const EmbedPathsParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles},
                                  {"paths", p.paths},
                                  {"offsets", p.offsets},
                                  {"y_weight", p.y_weight},
                                  {"x", p.x}}));
  RETURN_IF_ERROR(
      RequirePositive({{"tile_count", p.tile_count}, {"buffer_positions", p.buffer_positions}}));
  return RequireWidth(p.width);
}

absl::Status ValidateEmbedRows(const EmbedRowsParams& p) {
  RETURN_IF_ERROR(RequireNotNull(
      {{"encodings", p.encodings}, {"offset", p.offset}, {"y_weight", p.y_weight}, {"x", p.x}}));
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}}));
  return RequireWidth(p.width);
}

}  // namespace chorale::kernels::cuda
