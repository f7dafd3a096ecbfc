#include "kernels/ops/cell_features.h"

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels {

absl::Status ValidateCellFeatures(const CellFeaturesParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"values", p.values}, {"out", p.out}}));
  return RequirePositive({{"rows", p.rows}, {"value_stride", p.value_stride}});
}

}  // namespace chorale::kernels
