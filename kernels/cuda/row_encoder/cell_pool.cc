#include "kernels/cuda/row_encoder/cell_pool.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/row_encoder/cell_table.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidatePoolCells(const PoolCellsParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"cells", p.cells},
                                  {"gated", p.gated},
                                  {"seed_tokens", p.seed_tokens},
                                  {"pool", p.pool},
                                  {"out_gamma", p.out_gamma},
                                  {"out_beta", p.out_beta},
                                  {"out", p.out},
                                  {"out_bias", p.out_bias},
                                  {"gamma", p.gamma},
                                  {"beta", p.beta},
                                  {"encodings", p.encodings}}));
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}}));
  RETURN_IF_ERROR(ValidateColumns(p.columns));
  if (p.num_seed_tokens < 1 || p.num_seed_tokens > kCellTileTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_seed_tokens is ", p.num_seed_tokens, ", must be 1 to ", kCellTileTokens));
  }
  if (p.width < 8 || p.width % 8 != 0 || p.width > kLargestEncoding) {
    return absl::InvalidArgumentError(
        absl::StrCat("width is ", p.width, ", must be a multiple of 8 up to ", kLargestEncoding));
  }
  return ValidateCellShape(p.shape);
}

}  // namespace chorale::kernels::cuda
