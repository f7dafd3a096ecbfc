#include "kernels/ops/key_attention.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/shared_context_attention.h"

namespace chorale::kernels {

absl::Status ValidateKeyAttention(const KeyAttentionParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"q", p.q},
                                  {"out", p.out},
                                  {"lse", p.lse},
                                  {"context_keys", p.context_keys},
                                  {"context_values", p.context_values},
                                  {"importance", p.importance}}));
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows},
                                   {"heads", p.heads},
                                   {"kv_heads", p.kv_heads},
                                   {"context_rows", p.context_rows},
                                   {"keys", p.keys}}));
  if (p.heads % p.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_heads is ", p.kv_heads, ", must divide heads ", p.heads));
  }
  if (!IsSupportedHeadDim(p.head_dim)) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim is ", p.head_dim, ", must be 8, 16, 32, 64 or 128"));
  }
  const int64_t width = p.heads * p.head_dim;
  RETURN_IF_ERROR(RequireAtLeast({"q_stride", p.q_stride}, width));
  RETURN_IF_ERROR(RequireAtLeast({"out_stride", p.out_stride}, width));
  if (!std::isfinite(p.scale)) return absl::InvalidArgumentError("scale is not finite");
  RETURN_IF_ERROR(RequireNotNegative({{"first_key", p.first_key}}));
  if (p.first_key % kPanel != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_key is ", p.first_key, ", must be a multiple of ", kPanel));
  }
  if (p.keys > p.context_rows - p.first_key) {
    return absl::InvalidArgumentError(absl::StrCat("first_key + keys is ", p.first_key, " + ",
                                                   p.keys, ", must be at most context_rows ",
                                                   p.context_rows));
  }
  return absl::OkStatus();
}

}  // namespace chorale::kernels
