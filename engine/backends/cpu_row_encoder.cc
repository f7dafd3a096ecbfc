#include "engine/backends/cpu_row_encoder.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace chorale {

absl::StatusOr<std::unique_ptr<const RowEncoder>> MakeRowEncoder(const Model& model) {
  if (model.config.row_encoder == "feature_mean") return MakeFeatureMeanEncoder(model.feature_mean);
  return absl::InvalidArgumentError(
      absl::StrCat("row_encoder: '", model.config.row_encoder,
                   "' is unknown to the CPU backend; known: feature_mean"));
}

}  // namespace chorale
