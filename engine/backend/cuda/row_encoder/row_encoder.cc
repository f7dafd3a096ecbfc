#include "engine/backend/cuda/row_encoder/row_encoder.h"

#include <variant>

#include "engine/backend/cuda/row_encoder/host_encoder.h"

namespace chorale::cuda {

absl::StatusOr<std::unique_ptr<const DeviceRowEncoder>> MakeDeviceRowEncoder(const Model& model,
                                                                             WeightBlob& blob) {
  if (const auto* weights = std::get_if<CellAttentionWeights>(&model.row_encoder)) {
    return MakeDeviceCellAttentionEncoder(*weights, model.config, blob);
  }
  return std::make_unique<HostEncoder>(MakeRowEncoder(model), model.config.d_model);
}

}  // namespace chorale::cuda
