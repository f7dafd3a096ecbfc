#include "kernels/cuda/memory_set/key_groups.h"

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateKeyGroups(const KeyGroups& groups) {
  RETURN_IF_ERROR(RequireNotNull(
      {{"groups.member", groups.member}, {"groups.group_begin", groups.group_begin}}));
  RETURN_IF_ERROR(RequirePositive({{"groups.groups", groups.groups}}));
  return RequireAtLeast({"groups.n", groups.n}, groups.groups);
}

}  // namespace chorale::kernels::cuda
