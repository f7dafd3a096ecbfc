#include "kernels/cuda/memory_set/merge_keys.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateMergeKeys(const MergeKeysParams& p) {
  RETURN_IF_ERROR(ValidateMemoryKeys(p.keys));
  RETURN_IF_ERROR(ValidateKeyGroups(p.groups));
  RETURN_IF_ERROR(RequireNotNegative({{"first_group", p.first_group}}));
  RETURN_IF_ERROR(RequireAtLeast({"end_group", p.end_group}, int64_t{p.first_group} + 1));
  RETURN_IF_ERROR(RequireAtLeast({"groups.groups", p.groups.groups}, p.end_group));
  if (p.groups.n != p.keys.keys()) {
    return absl::InvalidArgumentError(
        absl::StrCat("groups.n is ", p.groups.n, ", must be the number of keys ", p.keys.keys()));
  }
  RETURN_IF_ERROR(RequireNotNull({{"set_kv", p.set_kv}, {"set_log_weights", p.set_log_weights}}));
  return ValidateHeads(p.shape);
}

}  // namespace chorale::kernels::cuda
