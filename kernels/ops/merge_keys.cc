#include "kernels/ops/merge_keys.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels {
namespace {

absl::Status ValidateGroups(const MergeKeysParams& p) {
  for (int64_t g = p.first_group; g < p.end_group; ++g) {
    if (p.group_begin[g] < 0 || p.group_begin[g + 1] <= p.group_begin[g]) {
      return absl::InvalidArgumentError(absl::StrCat("group_begin[", g + 1, "] is ",
                                                     p.group_begin[g + 1], ", must be above ",
                                                     p.group_begin[g], " (no group is empty)"));
    }
    for (int64_t i = p.group_begin[g]; i < p.group_begin[g + 1]; ++i) {
      if (p.member[i] >= 0 && p.member[i] < p.n) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("member[", i, "] is ", p.member[i], ", must be less than n ", p.n));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateMergeKeys(const MergeKeysParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"keys", p.keys},
                                  {"values", p.values},
                                  {"member", p.member},
                                  {"group_begin", p.group_begin},
                                  {"out_keys", p.out_keys},
                                  {"out_values", p.out_values},
                                  {"out_log_weights", p.out_log_weights}}));
  RETURN_IF_ERROR(RequirePositive({{"n", p.n}, {"head_dim", p.head_dim}, {"groups", p.groups}}));
  RETURN_IF_ERROR(RequireNotNegative({{"first_group", p.first_group}}));
  RETURN_IF_ERROR(RequireAtLeast({"end_group", p.end_group}, p.first_group + 1));
  RETURN_IF_ERROR(RequireAtLeast({"groups", p.groups}, p.end_group));
  return ValidateGroups(p);
}

}  // namespace chorale::kernels
