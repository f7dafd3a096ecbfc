#include "kernels/cuda/attention/encode_attention.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/integer_math.h"
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

EncodeBlocks ChooseEncodeBlocks(int32_t tile_count, int32_t heads, int32_t multiprocessors) {
  constexpr int32_t kTiles = kEncodeBlockTiles;
  const EncodeBlocks threes = {static_cast<int32_t>(CeilDiv(tile_count, kTiles)), 0};
  const int64_t full_rounds = int64_t{threes.of_three} * heads / multiprocessors;
  EncodeBlocks mixed;
  mixed.of_three = static_cast<int32_t>(
      std::min<int64_t>(full_rounds * multiprocessors / heads, tile_count / kTiles));
  mixed.of_one = tile_count - kTiles * mixed.of_three;
  return int64_t{mixed.of_one} * heads <= multiprocessors ? mixed : threes;
}

absl::Status ValidateEncodeAttention(const EncodeAttentionParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles}, {"q", p.q}, {"attended", p.attended}}));
  RETURN_IF_ERROR(
      RequirePositive({{"tile_count", p.tile_count}, {"multiprocessors", p.multiprocessors}}));
  RETURN_IF_ERROR(RequireNotNegative({{"layer", p.layer}}));
  RETURN_IF_ERROR(ValidateHeads(p.shape));
  if (p.shape.head_dim != kEncodeHeadDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape.head_dim is ", p.shape.head_dim, ", must be ", kEncodeHeadDim));
  }
  if (p.q_stride % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("q_stride is ", p.q_stride, ", must be a multiple of 8"));
  }
  return RequireAtLeast({"q_stride", p.q_stride}, p.shape.query_width());
}

}  // namespace chorale::kernels::cuda
