#include "kernels/ops/layer_norm.h"

#include <cmath>

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels {

absl::Status ValidateLayerNorm(const LayerNormParams& p) {
  if (absl::Status s =
          RequireNotNull({{"x", p.x}, {"gamma", p.gamma}, {"beta", p.beta}, {"y", p.y}});
      !s.ok()) {
    return s;
  }
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}, {"width", p.width}}));
  if (!(p.epsilon >= 0) || !std::isfinite(p.epsilon)) {
    return absl::InvalidArgumentError("epsilon must be finite and at least 0");
  }
  return absl::OkStatus();
}

}  // namespace chorale::kernels
