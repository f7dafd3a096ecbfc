#include "kernels/cuda/row_encoder/cell_rows.h"

#include "base/status_macros.h"
#include "kernels/cuda/row_encoder/cell_table.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateMixRows(const MixRowsParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"cells", p.cells}, {"layer", p.layer}}));
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}}));
  RETURN_IF_ERROR(ValidateColumns(p.columns));
  return ValidateCellShape(p.shape);
}

}  // namespace chorale::kernels::cuda
