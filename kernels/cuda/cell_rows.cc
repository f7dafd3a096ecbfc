#include "kernels/cuda/cell_rows.h"

#include "kernels/cuda/cell_table.h"
#include "kernels/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateMixRows(const MixRowsParams& p) {
  if (absl::Status s = RequireNotNull({{"cells", p.cells}, {"layer", p.layer}}); !s.ok()) return s;
  if (absl::Status s = RequirePositive({{"rows", p.rows}}); !s.ok()) return s;
  if (absl::Status s = ValidateColumns(p.columns); !s.ok()) return s;
  return ValidateCellShape(p.shape);
}

}  // namespace chorale::kernels::cuda
