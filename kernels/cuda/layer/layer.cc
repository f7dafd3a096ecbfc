#include "kernels/cuda/layer/layer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/layer/smem_mma_sm80.h"
#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {
namespace {

absl::Status ValidateFinish(const RowLayerParams& p) {
  return RequireNotNull({{"chunk_o", p.chunk_o},
                         {"chunk_state", p.chunk_state},
                         {"finish.slabs", p.finish.slabs},
                         {"finish.vectors", p.finish.vectors}});
}

absl::Status ValidateLeave(const RowLayerParams& p) {
  return RequireNotNull(
      {{"q", p.q}, {"leave.slabs", p.leave.slabs}, {"leave.vectors", p.leave.vectors}});
}

}  // namespace

absl::Status ValidateRowShapes(const RowLayerParams& p) {
  RETURN_IF_ERROR(RequirePositive({{"tile_count", p.tile_count},
                                   {"width", p.width},
                                   {"heads", p.heads},
                                   {"kv_heads", p.kv_heads},
                                   {"hidden", p.hidden}}));
  if (p.width % 8 != 0 || p.width > kLargestWidth) {
    return absl::InvalidArgumentError(
        absl::StrCat("width is ", p.width, ", must be a multiple of 8 up to ", kLargestWidth));
  }
  RETURN_IF_ERROR(ValidateHeads(p.heads, p.kv_heads, p.head_dim));
  const int64_t attention_width = int64_t{p.heads} * p.head_dim;
  RETURN_IF_ERROR(RequireAtLeast({"heads * head_dim", attention_width}, p.width));
  if (attention_width > 2 * kLargestWidth) {
    return absl::InvalidArgumentError(absl::StrCat("heads * head_dim is ", attention_width,
                                                   ", must be at most ", 2 * kLargestWidth));
  }
  if (!(p.epsilon >= 0) || !std::isfinite(p.epsilon)) {
    return absl::InvalidArgumentError("epsilon must be finite and at least 0");
  }
  return absl::OkStatus();
}

absl::Status ValidateRowLayer(const RowLayerParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles}, {"x", p.x}}));
  if (p.stages != RowStages::kLeave) {
    RETURN_IF_ERROR(ValidateFinish(p));
  }
  if (p.stages != RowStages::kFinish) {
    RETURN_IF_ERROR(ValidateLeave(p));
  }
  RETURN_IF_ERROR(RequireNotNegative({{"layer", p.layer}}));
  return ValidateRowShapes(p);
}

int RowLayerSharedBytes(const RowLayerParams& params, int block_rows) {
  return RowLayoutOf(params, block_rows).bytes;
}

bool TakesWarpgroups(const RowLayerParams& params, int block_rows, int shared_bytes) {
  const bool given = (params.stages == RowStages::kLeave || params.finish.quarters != nullptr) &&
                     (params.stages == RowStages::kFinish || params.leave.quarters != nullptr);
  return given && block_rows >= kGroupRows &&
         RowProductLayoutOf(params, block_rows, shared_bytes).stages > 0;
}

absl::StatusOr<int> ChooseBlockRows(const RowLayerParams& params, int multiprocessors,
                                    int shared_bytes) {
  const int64_t rows = int64_t{params.tile_count} * kTileRows;
  int block_rows = kGroupRows;
  if (rows <= kGroupPaths * int64_t{multiprocessors} / 2 &&
      !TakesWarpgroups(params, kGroupRows, shared_bytes)) {
    block_rows = kGroupPaths;
  }
  while (block_rows < kTileRows && rows > block_rows * int64_t{multiprocessors}) block_rows *= 2;
  for (; block_rows >= kGroupPaths; block_rows /= 2) {
    if (RowLayerSharedBytes(params, block_rows) <= shared_bytes) return block_rows;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "16 rows of width ", params.width, ", ", params.heads, " heads of ", params.head_dim,
      " and a hidden layer of ", params.hidden, " need ", RowLayerSharedBytes(params, kGroupRows),
      " bytes of shared memory, but a block of the device has ", shared_bytes));
}

}  // namespace chorale::kernels::cuda
