#include "kernels/cuda/attention/attention.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateHeads(const ModelShape& shape) {
  RETURN_IF_ERROR(
      RequirePositive({{"shape.heads", shape.heads}, {"shape.kv_heads", shape.kv_heads}}));
  if (shape.heads % shape.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("shape.kv_heads is ", shape.kv_heads,
                                                   ", must divide shape.heads ", shape.heads));
  }
  if (!IsSupportedHeadDim(shape.head_dim)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape.head_dim is ", shape.head_dim, ", must be 16, 32, 64 or 128"));
  }
  return absl::OkStatus();
}

bool HasWgmmaAttention(int32_t head_dim, int compute_major) {
  return (head_dim == 32 || head_dim == 64) && compute_major == kWgmmaComputeMajor;
}

absl::Status ValidateAttention(const AttentionParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles}, {"q", p.q}}));
  if (p.attended == nullptr) {
    RETURN_IF_ERROR(RequireNotNull({{"partial_o", p.partial_o}, {"partial_ml", p.partial_ml}}));
  } else if (p.split != KvSplit::kSingle) {
    return absl::InvalidArgumentError("attended must be null where each split has a block");
  }
  if (p.q_stride != 0) {
    RETURN_IF_ERROR(RequireAtLeast({"q_stride", p.q_stride}, p.shape.query_width()));
  }
  RETURN_IF_ERROR(RequirePositive({{"tile_count", p.tile_count}, {"num_splits", p.num_splits}}));
  RETURN_IF_ERROR(RequireNotNegative({{"layer", p.layer}}));
  if (p.use_wgmma && p.shape.head_dim != 32 && p.shape.head_dim != 64) {
    return absl::InvalidArgumentError(absl::StrCat("shape.head_dim is ", p.shape.head_dim,
                                                   ", must be 32 or 64 where wgmma is used"));
  }
  return ValidateHeads(p.shape);
}

KvSplit ChooseSplit(int64_t tiles, const ModelShape& shape, int64_t largest_context_rows,
                    int64_t num_splits, int multiprocessors, bool use_wgmma) {
  const int64_t splits = MaxKvSplits(largest_context_rows);
  // A block of a head of 64 keeps a multiprocessor busy, or two of heads of 32: on an H200 without
  // wgmma, 64 tiles of two heads were faster with splits, 80 without.
  const int64_t busy_width = use_wgmma ? 32 : 64;
  const bool few_blocks = tiles * shape.query_width() < busy_width * multiprocessors;
  return splits <= num_splits && few_blocks ? KvSplit::kSplit : KvSplit::kSingle;
}

}  // namespace chorale::kernels::cuda
