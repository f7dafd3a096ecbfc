#include "kernels/mixture_head.h"

#include <cmath>

#include "kernels/field_checks.h"

namespace chorale::kernels {

absl::Status ValidateMixtureHead(const MixtureHeadParams& p) {
  if (absl::Status s = RequireNotNull({{"raw", p.raw},
                                       {"mean_bias", p.mean_bias},
                                       {"std_bias", p.std_bias},
                                       {"weight_bias", p.weight_bias},
                                       {"mean", p.mean},
                                       {"std", p.std},
                                       {"log_weight", p.log_weight}});
      !s.ok()) {
    return s;
  }
  if (absl::Status s = RequirePositive({{"rows", p.rows}, {"components", p.components}}); !s.ok()) {
    return s;
  }
  if (absl::Status s = RequireAtLeast({"raw_stride", p.raw_stride}, 3 * p.components); !s.ok()) {
    return s;
  }
  if (!(p.std_min >= 0) || !std::isfinite(p.std_min)) {
    return absl::InvalidArgumentError("std_min must be finite and at least 0");
  }
  if (!(p.std_max > 0)) return absl::InvalidArgumentError("std_max must be greater than 0");
  return absl::OkStatus();
}

}  // namespace chorale::kernels
