#include "kernels/cuda/memory_set/spread_in_cells.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateSpreadInCells(const SpreadInCellsParams& p) {
  RETURN_IF_ERROR(ValidateMemoryKeys(p.keys));
  RETURN_IF_ERROR(
      RequireNotNull({{"weight", p.weight}, {"centres", p.centres}, {"scratch", p.scratch}}));
  RETURN_IF_ERROR(ValidateCentreCells(p.cells));
  RETURN_IF_ERROR(ValidateKeyGroups(p.groups));
  for (const int32_t n : {p.cells.keys.n, p.groups.n}) {
    if (n == p.keys.keys()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("groups have ", n, " keys, must have all ", p.keys.keys()));
  }
  if (p.groups.member == p.cells.keys.member) {
    return absl::InvalidArgumentError("groups.member is that of the cells");
  }
  RETURN_IF_ERROR(RequireAtLeast({"groups.groups", p.groups.groups}, p.cells.keys.groups));
  RETURN_IF_ERROR(RequireNotNegative({{"first_cell", p.first_cell}}));
  RETURN_IF_ERROR(RequireAtLeast({"end_cell", p.end_cell}, int64_t{p.first_cell} + 1));
  RETURN_IF_ERROR(RequireAtLeast({"cells.keys.groups", p.cells.keys.groups}, p.end_cell));
  return ValidateHeads(p.shape);
}

}  // namespace chorale::kernels::cuda
