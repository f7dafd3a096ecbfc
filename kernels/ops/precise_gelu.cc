#include "kernels/ops/precise_gelu.h"

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels {

absl::Status ValidatePreciseGelu(const PreciseGeluParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"x", p.x}, {"y", p.y}}));
  return RequirePositive({{"n", p.n}});
}

}  // namespace chorale::kernels
