#include "kernels/cuda/embed.h"

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"

namespace chorale::kernels::cuda {

static absl::Status RequireWidth(int64_t width) {
  if (width > 0 && width % 4 == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("width is ", width, ", must be a positive multiple of 4"));
}

absl::Status ValidateEmbedPaths(const EmbedPathsParams& p) {
  if (absl::Status s = RequireNotNull({{"tiles", p.tiles},
                                       {"paths", p.paths},
                                       {"offsets", p.offsets},
                                       {"y_weight", p.y_weight},
                                       {"x", p.x}});
      !s.ok()) {
    return s;
  }
  if (absl::Status s = RequirePositive({{"tile_count", p.tile_count}, {"places", p.places}});
      !s.ok()) {
    return s;
  }
  return RequireWidth(p.width);
}

absl::Status ValidateEmbedRows(const EmbedRowsParams& p) {
  if (absl::Status s = RequireNotNull(
          {{"encodings", p.encodings}, {"offset", p.offset}, {"y_weight", p.y_weight}, {"x", p.x}});
      !s.ok()) {
    return s;
  }
  if (absl::Status s = RequirePositive({{"rows", p.rows}}); !s.ok()) return s;
  return RequireWidth(p.width);
}

}  // namespace chorale::kernels::cuda
