#include "kernels/cuda/memory_set/group_keys.h"

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateKeyGroups(const KeyGroups& groups, int32_t first_group, int32_t end_group) {
  RETURN_IF_ERROR(RequireNotNull(
      {{"groups.member", groups.member}, {"groups.group_begin", groups.group_begin}}));
  RETURN_IF_ERROR(RequirePositive({{"groups.n", groups.n}, {"groups.groups", groups.groups}}));
  RETURN_IF_ERROR(RequireNotNegative({{"first_group", first_group}}));
  RETURN_IF_ERROR(RequireAtLeast({"end_group", end_group}, int64_t{first_group} + 1));
  return RequireAtLeast({"groups.groups", groups.groups}, end_group);
}

absl::Status ValidateGroupKeys(const GroupKeysParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"nearest", p.nearest}}));
  RETURN_IF_ERROR(RequirePositive({{"kv_heads", p.kv_heads}}));
  return ValidateKeyGroups(p.groups, p.first_group, p.end_group);
}

}  // namespace chorale::kernels::cuda
