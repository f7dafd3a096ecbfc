#include "engine/backend/cuda/row_encoder/row_encoder.h"

#include <variant>

namespace chorale {

absl::StatusOr<std::unique_ptr<const CudaRowEncoder>> MakeCudaRowEncoder(const Model& model,
                                                                         WeightBlob& blob) {
  if (const auto* weights = std::get_if<CellAttentionWeights>(&model.row_encoder)) {
    return MakeCudaCellAttentionEncoder(*weights, model.config, blob);
  }
  return MakeCudaFeatureMeanEncoder(std::get<FeatureMeanWeights>(model.row_encoder), blob);
}

}  // namespace chorale
