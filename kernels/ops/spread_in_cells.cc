#include "kernels/ops/spread_in_cells.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"
#include "kernels/ops/shared_context_attention.h"
#include "kernels/ops/spread_keys.h"

namespace chorale::kernels {

absl::Status ValidateSpreadInCell(const SpreadInCellParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"keys", p.keys},
                                  {"weight", p.weight},
                                  {"member", p.member},
                                  {"cell_panels", p.cell_panels},
                                  {"cell_weight", p.cell_weight},
                                  {"distance", p.distance},
                                  {"nearest_place", p.nearest_place},
                                  {"nearest", p.nearest}}));
  if (!IsSupportedHeadDim(p.head_dim)) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim is ", p.head_dim, ", must be 8, 16, 32, 64 or 128"));
  }
  RETURN_IF_ERROR(RequirePositive({{"cell_keys", p.cell_keys}}));
  RETURN_IF_ERROR(RequireAtLeast({"n", p.n}, p.cell_keys));
  RETURN_IF_ERROR(
      RequireNotNegative({{"coarse_centre", p.coarse_centre}, {"first_index", p.first_index}}));
  RETURN_IF_ERROR(RequireAtLeast({"n", p.n}, p.coarse_centre + 1));
  return ValidateCentres({.n = p.cell_keys,
                          .centre_count = p.centre_count,
                          .first_centre = p.first_centre,
                          .end_centre = p.end_centre});
}

}  // namespace chorale::kernels
