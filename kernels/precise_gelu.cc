#include "kernels/precise_gelu.h"

#include "kernels/field_checks.h"

namespace chorale::kernels {

absl::Status ValidatePreciseGelu(const PreciseGeluParams& p) {
  if (absl::Status s = RequireNotNull({{"x", p.x}, {"y", p.y}}); !s.ok()) return s;
  return RequirePositive({{"n", p.n}});
}

}  // namespace chorale::kernels
