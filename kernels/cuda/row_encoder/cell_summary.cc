#include "kernels/cuda/row_encoder/cell_summary.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateSummariseColumns(const SummariseColumnsParams& p) {
  RETURN_IF_ERROR(ValidateCellTable(p.table));
  RETURN_IF_ERROR(ValidateCellShape(p.shape));
  if (p.num_inducing_points < 1 || p.num_inducing_points > kCellTileTokens) {
    return absl::InvalidArgumentError(absl::StrCat("num_inducing_points is ", p.num_inducing_points,
                                                   ", must be 1 to ", kCellTileTokens));
  }
  return RequireNotNull({{"y", p.table.y},
                         {"cell", p.cell},
                         {"inducing_points", p.inducing_points},
                         {"summarise", p.summarise},
                         {"summaries", p.summaries}});
}

}  // namespace chorale::kernels::cuda
