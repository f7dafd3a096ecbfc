#include "kernels/cuda/row_encoder/cell_columns.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateReadColumns(const ReadColumnsParams& p) {
  RETURN_IF_ERROR(ValidateCellTable(p.table));
  RETURN_IF_ERROR(ValidateCellShape(p.shape));
  if (p.num_inducing_points < 1 || p.num_inducing_points > kCellTileTokens) {
    return absl::InvalidArgumentError(absl::StrCat("num_inducing_points is ", p.num_inducing_points,
                                                   ", must be 1 to ", kCellTileTokens));
  }
  return RequireNotNull({{"cell", p.cell},
                         {"column_ids", p.column_ids},
                         {"gates", p.gates},
                         {"inducing_kv", p.inducing_kv},
                         {"read_column", p.read_column},
                         {"cells", p.cells},
                         {"gated", p.gated}});
}

}  // namespace chorale::kernels::cuda
