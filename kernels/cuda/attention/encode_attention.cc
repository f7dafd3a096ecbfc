#include "kernels/cuda/attention/encode_attention.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {
namespace {

// The compute capability that has wgmma: no other has it, older or newer.
constexpr int kComputeMajor = 9;

}  // namespace

bool HasEncodeAttention(int32_t head_dim, int compute_major) {
  return head_dim == kEncodeHeadDim && compute_major == kComputeMajor;
}

absl::Status ValidateEncodeAttention(const EncodeAttentionParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles}, {"q", p.q}, {"attended", p.attended}}));
  RETURN_IF_ERROR(RequirePositive(
      {{"tile_count", p.tile_count}, {"heads", p.heads}, {"kv_heads", p.kv_heads}}));
  RETURN_IF_ERROR(RequireNotNegative({{"layer", p.layer}}));
  RETURN_IF_ERROR(ValidateHeads(p.heads, p.kv_heads, p.head_dim));
  if (p.head_dim != kEncodeHeadDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim is ", p.head_dim, ", must be ", kEncodeHeadDim));
  }
  if (p.q_stride % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("q_stride is ", p.q_stride, ", must be a multiple of 8"));
  }
  return RequireAtLeast({"q_stride", p.q_stride}, int64_t{p.heads} * p.head_dim);
}

}  // namespace chorale::kernels::cuda
