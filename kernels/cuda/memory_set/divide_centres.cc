#include "kernels/cuda/memory_set/divide_centres.h"

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateCentreCells(const CentreCells& cells) {
  RETURN_IF_ERROR(ValidateKeyGroups(cells.keys));
  return RequireNotNull({{"cells.centre_begin", cells.centre_begin}});
}

absl::Status ValidateDivideCentres(const DivideCentresParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"nearest", p.nearest},
                                  {"distance", p.distance},
                                  {"weight", p.weight},
                                  {"scratch", p.scratch}}));
  RETURN_IF_ERROR(ValidateCentreCells(p.cells));
  RETURN_IF_ERROR(RequirePositive({{"kv_heads", p.kv_heads}}));
  RETURN_IF_ERROR(RequireAtLeast({"centre_count", p.centre_count}, p.cells.keys.groups));
  return RequireAtLeast({"cells.keys.n", p.cells.keys.n}, p.centre_count);
}

}  // namespace chorale::kernels::cuda
