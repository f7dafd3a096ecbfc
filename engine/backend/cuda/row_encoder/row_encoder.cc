#include "engine/backend/cuda/row_encoder/row_encoder.h"

#include <variant>

namespace chorale::cuda {

absl::StatusOr<std::unique_ptr<const DeviceRowEncoder>> MakeDeviceRowEncoder(const Model& model,
                                                                             WeightBlob& blob) {
  if (const auto* weights = std::get_if<CellAttentionWeights>(&model.row_encoder)) {
    return MakeDeviceCellAttentionEncoder(*weights, model.config, blob);
  }
  return MakeDeviceFeatureMeanEncoder(std::get<FeatureMeanWeights>(model.row_encoder), blob);
}

}  // namespace chorale::cuda
