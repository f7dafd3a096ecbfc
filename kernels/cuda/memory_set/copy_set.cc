#include "kernels/cuda/memory_set/copy_set.h"

#include "base/status_macros.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateCopySet(const CopySetParams& p) {
  RETURN_IF_ERROR(ValidateMemoryKeys(p.keys));
  if (p.keys.set_keys > 0) {
    RETURN_IF_ERROR(RequireNotNull({{"set_kv", p.set_kv}, {"set_log_weights", p.set_log_weights}}));
  }
  return ValidateHeads(p.shape);
}

}  // namespace chorale::kernels::cuda
