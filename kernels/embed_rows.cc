#include "kernels/embed_rows.h"

#include "kernels/field_checks.h"

namespace chorale::kernels {

absl::Status ValidateEmbedRows(const EmbedRowsParams& p) {
  if (absl::Status s = RequireNotNull({{"encodings", p.encodings},
                                       {"offsets", p.offsets},
                                       {"encoding", p.encoding},
                                       {"offset", p.offset},
                                       {"out", p.out}});
      !s.ok()) {
    return s;
  }
  if (p.y != nullptr) {
    if (absl::Status s = RequireNotNull({{"y_weight", p.y_weight}}); !s.ok()) return s;
  }
  if (absl::Status s = RequirePositive({{"rows", p.rows}, {"width", p.width}}); !s.ok()) return s;
  for (int64_t r = 0; r < p.rows; ++r) {
    if (absl::Status s = RequireNotNegative({{"encoding", p.encoding[r]}, {"offset", p.offset[r]}});
        !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

}  // namespace chorale::kernels
