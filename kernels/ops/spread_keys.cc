#include "kernels/ops/spread_keys.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"
#include "kernels/ops/shared_context_attention.h"

namespace chorale::kernels {

absl::Status ValidateCentres(const CentreRange& p) {
  RETURN_IF_ERROR(RequirePositive({{"centre_count", p.centre_count}}));
  RETURN_IF_ERROR(RequireAtLeast({"n", p.n}, p.centre_count));
  RETURN_IF_ERROR(RequireNotNegative({{"first_centre", p.first_centre}}));
  RETURN_IF_ERROR(RequireAtLeast({"end_centre", p.end_centre}, p.first_centre + 1));
  RETURN_IF_ERROR(RequireAtLeast({"centre_count", p.centre_count}, p.end_centre));
  if (p.first_centre % kCentresAtOnce != 0) {
    return absl::InvalidArgumentError(absl::StrCat("first_centre is ", p.first_centre,
                                                   ", must be a multiple of ", kCentresAtOnce));
  }
  if (p.end_centre % kCentresAtOnce != 0 && p.end_centre != p.centre_count) {
    return absl::InvalidArgumentError(absl::StrCat("end_centre is ", p.end_centre,
                                                   ", must be a multiple of ", kCentresAtOnce,
                                                   ", or centre_count"));
  }
  return absl::OkStatus();
}

absl::Status ValidateSpreadKeys(const SpreadKeysParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"keys", p.keys},
                                  {"weight", p.weight},
                                  {"distance", p.distance},
                                  {"nearest", p.nearest},
                                  {"centres", p.centres}}));
  if (!IsSupportedHeadDim(p.head_dim)) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim is ", p.head_dim, ", must be 8, 16, 32, 64 or 128"));
  }
  return ValidateCentres({.n = p.n,
                          .centre_count = p.centre_count,
                          .first_centre = p.first_centre,
                          .end_centre = p.end_centre});
}

}  // namespace chorale::kernels
