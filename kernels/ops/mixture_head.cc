#include "kernels/ops/mixture_head.h"

#include <cmath>

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels {

absl::Status ValidateMixtureHead(const MixtureHeadParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"raw", p.raw},
                                  {"mean_bias", p.mean_bias},
                                  {"std_bias", p.std_bias},
                                  {"weight_bias", p.weight_bias},
                                  {"mean", p.mean},
                                  {"std", p.std},
                                  {"log_weight", p.log_weight}}));
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}, {"components", p.components}}));
  RETURN_IF_ERROR(RequireAtLeast({"raw_stride", p.raw_stride}, 3 * p.components));
  if (!(p.std_min >= 0) || !std::isfinite(p.std_min)) {
    return absl::InvalidArgumentError("std_min must be finite and at least 0");
  }
  if (!(p.std_max > 0)) return absl::InvalidArgumentError("std_max must be greater than 0");
  return absl::OkStatus();
}

}  // namespace chorale::kernels
