#include "kernels/cell_features.h"

#include "kernels/field_checks.h"

namespace chorale::kernels {

absl::Status ValidateCellFeatures(const CellFeaturesParams& p) {
  if (absl::Status s = RequireNotNull({{"values", p.values}, {"out", p.out}}); !s.ok()) return s;
  return RequirePositive({{"rows", p.rows}, {"value_stride", p.value_stride}});
}

}  // namespace chorale::kernels
