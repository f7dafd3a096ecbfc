#include "kernels/cuda/memory_set/measuring_attention.h"

#include "base/status_macros.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateMeasuringAttention(const MeasuringAttentionParams& p) {
  RETURN_IF_ERROR(ValidateMemoryKeys(p.keys));
  RETURN_IF_ERROR(RequireNotNull({{"q", p.q},
                                  {"hidden_places", p.hidden_places},
                                  {"attended", p.attended},
                                  {"out", p.out},
                                  {"lse", p.lse}}));
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}}));
  RETURN_IF_ERROR(ValidateHeads(p.shape));
  return RequireAtLeast({"q_stride", p.q_stride}, p.shape.query_width());
}

}  // namespace chorale::kernels::cuda
