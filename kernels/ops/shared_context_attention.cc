#include "kernels/ops/shared_context_attention.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"
#include "kernels/ops/panel_layout.h"

namespace chorale::kernels {
namespace {

absl::Status ValidateBuffer(const SharedContextAttentionParams& p) {
  if (p.row_path == nullptr && p.row_visible == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(RequireNotNull({{"row_path", p.row_path},
                                  {"row_visible", p.row_visible},
                                  {"buffer_keys", p.buffer_keys},
                                  {"buffer_values", p.buffer_values}}));
  RETURN_IF_ERROR(RequirePositive({{"buffer_capacity", p.buffer_capacity}}));
  // A necessary condition for buffers that do not overlap: the stride is at least the size of the
  // values, which are not larger than the packed keys.
  RETURN_IF_ERROR(RequireAtLeast({"buffer_path_stride", p.buffer_path_stride},
                                 p.kv_heads * ValuesSize(p.buffer_capacity, p.head_dim)));
  int32_t previous = 0;
  for (int64_t r = 0; r < p.rows; ++r) {
    if (p.row_path[r] < previous) {
      return absl::InvalidArgumentError(
          absl::StrCat("row_path[", r, "] is ", p.row_path[r], ", must be at least ", previous,
                       " (paths are numbered from 0 and rows are sorted by path)"));
    }
    previous = p.row_path[r];
    if (p.row_visible[r] < 0 || p.row_visible[r] > p.buffer_capacity) {
      return absl::InvalidArgumentError(absl::StrCat("row_visible[", r, "] is ", p.row_visible[r],
                                                     ", must be between 0 and buffer_capacity ",
                                                     p.buffer_capacity));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateHiddenKeys(const SharedContextAttentionParams& p) {
  if (p.row_hidden_key == nullptr) return absl::OkStatus();
  for (int64_t i = 0; i < p.rows * p.kv_heads; ++i) {
    if (p.row_hidden_key[i] >= -1 && p.row_hidden_key[i] < p.context_rows) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "row_hidden_key[", i / p.kv_heads, ", ", i % p.kv_heads, "] is ", p.row_hidden_key[i],
        ", must be -1, or less than context_rows ", p.context_rows));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsSupportedHeadDim(int64_t head_dim) {
  return head_dim == 8 || head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128;
}

absl::Status ValidateSharedContextAttention(const SharedContextAttentionParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"q", p.q}, {"out", p.out}}));
  if (absl::Status s =
          RequirePositive({{"rows", p.rows}, {"heads", p.heads}, {"kv_heads", p.kv_heads}});
      !s.ok()) {
    return s;
  }
  RETURN_IF_ERROR(RequireNotNegative({{"context_rows", p.context_rows}}));
  RETURN_IF_ERROR(RequireAtLeast({"context_capacity", p.context_capacity}, p.context_rows));
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
  if (p.context_rows > 0) {
    RETURN_IF_ERROR(
        RequireNotNull({{"context_keys", p.context_keys}, {"context_values", p.context_values}}));
  }
  RETURN_IF_ERROR(ValidateHiddenKeys(p));
  return ValidateBuffer(p);
}

}  // namespace chorale::kernels
