#include "kernels/cuda/cell_pool.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cell_table.h"
#include "kernels/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidatePoolCells(const PoolCellsParams& p) {
  if (absl::Status s = RequireNotNull({{"cells", p.cells},
                                       {"gated", p.gated},
                                       {"pooled", p.pooled},
                                       {"pool", p.pool},
                                       {"out_gamma", p.out_gamma},
                                       {"out_beta", p.out_beta},
                                       {"out", p.out},
                                       {"out_bias", p.out_bias},
                                       {"gamma", p.gamma},
                                       {"beta", p.beta},
                                       {"encodings", p.encodings}});
      !s.ok()) {
    return s;
  }
  if (absl::Status s = RequirePositive({{"rows", p.rows}}); !s.ok()) return s;
  if (absl::Status s = ValidateColumns(p.columns); !s.ok()) return s;
  if (p.tokens < 1 || p.tokens > kTileTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens is ", p.tokens, ", must be 1 to ", kTileTokens));
  }
  if (p.width < 8 || p.width % 8 != 0 || p.width > kLargestEncoding) {
    return absl::InvalidArgumentError(
        absl::StrCat("width is ", p.width, ", must be a multiple of 8 up to ", kLargestEncoding));
  }
  return ValidateCellShape(p.shape);
}

}  // namespace chorale::kernels::cuda
