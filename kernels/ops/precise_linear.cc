#include "kernels/ops/precise_linear.h"

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels {

absl::Status ValidatePreciseLinear(const PreciseLinearParams& p) {
  if (absl::Status s =
          RequireNotNull({{"x", p.x}, {"weight", p.weight}, {"bias", p.bias}, {"y", p.y}});
      !s.ok()) {
    return s;
  }
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}, {"in", p.in}, {"out", p.out}}));
  RETURN_IF_ERROR(RequireAtLeast({"x_stride", p.x_stride}, p.in));
  return RequireAtLeast({"y_stride", p.y_stride}, p.out);
}

}  // namespace chorale::kernels
