#include "kernels/cuda/row_encoder/encode_means.h"

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateEncodeMeans(const EncodeMeansParams& p) {
  RETURN_IF_ERROR(RequireNotNull(
      {{"means", p.means}, {"weight", p.weight}, {"bias", p.bias}, {"encodings", p.encodings}}));
  return RequirePositive({{"rows", p.rows}, {"width", p.width}});
}

}  // namespace chorale::kernels::cuda
