#include "engine/backend/row_encoder/row_encoder.h"

#include <variant>

namespace chorale {

std::unique_ptr<const RowEncoder> MakeRowEncoder(const Model& model) {
  if (const auto* weights = std::get_if<CellAttentionWeights>(&model.row_encoder)) {
    return MakeCellAttentionEncoder(*weights, model.config);
  }
  return MakeFeatureMeanEncoder(std::get<FeatureMeanWeights>(model.row_encoder));
}

}  // namespace chorale
