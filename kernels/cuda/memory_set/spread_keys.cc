#include "kernels/cuda/memory_set/spread_keys.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateSpreadKeys(const SpreadKeysParams& p) {
  RETURN_IF_ERROR(ValidateMemoryKeys(p.keys));
  RETURN_IF_ERROR(RequireNotNull({{"weight", p.weight},
                                  {"distance", p.distance},
                                  {"nearest", p.nearest},
                                  {"centres", p.centres},
                                  {"candidates", p.candidates}}));
  RETURN_IF_ERROR(ValidateHeads(p.shape));
  return ValidateCentres({.n = p.keys.keys(),
                          .centre_count = p.centre_count,
                          .first_centre = p.first_centre,
                          .end_centre = p.end_centre});
}

}  // namespace chorale::kernels::cuda
