#include "kernels/cuda/row_encoder/cell_columns.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateReadColumns(const ReadColumnsParams& p) {
  RETURN_IF_ERROR(ValidateCellTable(p.table));
  RETURN_IF_ERROR(ValidateCellShape(p.shape));
  if (p.points_per_column < 1 || p.points_per_column > kTileTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("points_per_column is ", p.points_per_column, ", must be 1 to ", kTileTokens));
  }
  return RequireNotNull({{"cell", p.cell},
                         {"column_ids", p.column_ids},
                         {"gates", p.gates},
                         {"points", p.points},
                         {"read_column", p.read_column},
                         {"cells", p.cells},
                         {"gated", p.gated}});
}

}  // namespace chorale::kernels::cuda
