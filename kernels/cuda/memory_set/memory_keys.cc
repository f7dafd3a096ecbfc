#include "kernels/cuda/memory_set/memory_keys.h"

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateMemoryKeys(const MemoryKeys& keys) {
  RETURN_IF_ERROR(RequireNotNull({{"keys.kv", keys.kv}, {"keys.log_weights", keys.log_weights}}));
  RETURN_IF_ERROR(RequireNotNegative({{"keys.set_keys", keys.set_keys}}));
  return RequirePositive({{"keys.segment_rows", keys.segment_rows}});
}

}  // namespace chorale::kernels::cuda
