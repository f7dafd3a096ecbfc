#include "kernels/cuda/memory_set/key_importance.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateKeyImportance(const KeyImportanceParams& p) {
  RETURN_IF_ERROR(ValidateMemoryKeys(p.keys));
  RETURN_IF_ERROR(RequireNotNull({{"q", p.q},
                                  {"hidden_places", p.hidden_places},
                                  {"out", p.out},
                                  {"lse", p.lse},
                                  {"importance", p.importance}}));
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}}));
  RETURN_IF_ERROR(ValidateHeads(p.shape));
  RETURN_IF_ERROR(RequireAtLeast({"q_stride", p.q_stride}, p.shape.query_width()));
  if (p.q_stride % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("q_stride is ", p.q_stride, ", must be a multiple of 8"));
  }
  RETURN_IF_ERROR(RequireNotNegative({{"first_key_block", p.first_key_block}}));
  RETURN_IF_ERROR(
      RequireAtLeast({"end_key_block", p.end_key_block}, int64_t{p.first_key_block} + 1));
  return RequireAtLeast({"key blocks of keys.places()", ContextKeyBlocks(p.keys.places())},
                        p.end_key_block);
}

}  // namespace chorale::kernels::cuda
