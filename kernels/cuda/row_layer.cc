#include "kernels/cuda/row_layer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/row_layout.h"
#include "kernels/cuda/row_product_layout.h"
#include "kernels/field_checks.h"

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
  if (absl::Status s = RequirePositive({{"tile_count", p.tile_count},
                                        {"width", p.width},
                                        {"heads", p.heads},
                                        {"kv_heads", p.kv_heads},
                                        {"hidden", p.hidden}});
      !s.ok()) {
    return s;
  }
  if (p.width % 8 != 0 || p.width > kLargestWidth) {
    return absl::InvalidArgumentError(
        absl::StrCat("width is ", p.width, ", must be a multiple of 8 up to ", kLargestWidth));
  }
  if (absl::Status s = ValidateHeads(p.heads, p.kv_heads, p.head_dim); !s.ok()) return s;
  const int64_t attention_width = int64_t{p.heads} * p.head_dim;
  if (absl::Status s = RequireAtLeast({"heads * head_dim", attention_width}, p.width); !s.ok()) {
    return s;
  }
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
  if (absl::Status s = RequireNotNull({{"tiles", p.tiles}, {"x", p.x}}); !s.ok()) return s;
  if (p.stages != RowStages::kLeave) {
    if (absl::Status s = ValidateFinish(p); !s.ok()) return s;
  }
  if (p.stages != RowStages::kFinish) {
    if (absl::Status s = ValidateLeave(p); !s.ok()) return s;
  }
  if (absl::Status s = RequireNotNegative({{"layer", p.layer}}); !s.ok()) return s;
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
