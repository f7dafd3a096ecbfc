#include "kernels/cuda/row_encoder/feature_mean.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateEncodeFeatureMeans(const EncodeFeatureMeansParams& p) {
  RETURN_IF_ERROR(RequireNotNull(
      {{"cells", p.cells}, {"weight", p.weight}, {"bias", p.bias}, {"encodings", p.encodings}}));
  RETURN_IF_ERROR(
      RequirePositive({{"rows", p.rows}, {"columns", p.columns}, {"features", p.features}}));
  RETURN_IF_ERROR(RequireNotNegative({{"first_feature", p.first_feature}}));
  if (p.first_feature > p.features - p.columns) {
    return absl::InvalidArgumentError(absl::StrCat("first_feature is ", p.first_feature,
                                                   ", must leave room for ", p.columns,
                                                   " columns of ", p.features, " features"));
  }
  if (p.columns < p.features) RETURN_IF_ERROR(RequireNotNull({{"sums", p.sums}}));
  if (p.width > 0 && p.width % 4 == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("width is ", p.width, ", must be a positive multiple of 4"));
}

}  // namespace chorale::kernels::cuda
