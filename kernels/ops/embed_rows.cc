#include "kernels/ops/embed_rows.h"

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels {

absl::Status ValidateEmbedRows(const EmbedRowsParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"encodings", p.encodings},
                                  {"offsets", p.offsets},
                                  {"encoding", p.encoding},
                                  {"offset", p.offset},
                                  {"out", p.out}}));
  if (p.y != nullptr) {
    RETURN_IF_ERROR(RequireNotNull({{"y_weight", p.y_weight}}));
  }
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}, {"width", p.width}}));
  for (int64_t r = 0; r < p.rows; ++r) {
    RETURN_IF_ERROR(RequireNotNegative({{"encoding", p.encoding[r]}, {"offset", p.offset[r]}}));
  }
  return absl::OkStatus();
}

}  // namespace chorale::kernels
