#include "kernels/cuda/row_encoder/cell_summary.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateSummariseColumns(const SummariseColumnsParams& p) {
  RETURN_IF_ERROR(ValidateCellTable(p.table));
  RETURN_IF_ERROR(ValidateCellShape(p.shape));
  if (p.points_per_column < 1 || p.points_per_column > kTileTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("points_per_column is ", p.points_per_column, ", must be 1 to ", kTileTokens));
  }
  return RequireNotNull({{"y", p.table.y},
                         {"cell", p.cell},
                         {"points", p.points},
                         {"summarise", p.summarise},
                         {"summaries", p.summaries}});
}

}  // namespace chorale::kernels::cuda
