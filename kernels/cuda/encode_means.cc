#include "kernels/cuda/encode_means.h"

#include "kernels/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateEncodeMeans(const EncodeMeansParams& p) {
  if (absl::Status s = RequireNotNull(
          {{"means", p.means}, {"weight", p.weight}, {"bias", p.bias}, {"encodings", p.encodings}});
      !s.ok()) {
    return s;
  }
  return RequirePositive({{"rows", p.rows}, {"width", p.width}});
}

}  // namespace chorale::kernels::cuda
