#include "kernels/precise_linear.h"

#include "kernels/field_checks.h"

namespace chorale::kernels {

absl::Status ValidatePreciseLinear(const PreciseLinearParams& p) {
  if (absl::Status s =
          RequireNotNull({{"x", p.x}, {"weight", p.weight}, {"bias", p.bias}, {"y", p.y}});
      !s.ok()) {
    return s;
  }
  if (absl::Status s = RequirePositive({{"rows", p.rows}, {"in", p.in}, {"out", p.out}}); !s.ok()) {
    return s;
  }
  if (absl::Status s = RequireAtLeast({"x_stride", p.x_stride}, p.in); !s.ok()) return s;
  return RequireAtLeast({"y_stride", p.y_stride}, p.out);
}

}  // namespace chorale::kernels
