#include "engine/backend/cpu/model.h"

#include "engine/backend/token_offsets.h"

namespace chorale::cpu {
namespace {

PackedLayer PackLayer(const LayerWeights& weights, const ModelConfig& config) {
  const int64_t d = config.d_model;
  PackedLayer layer;
  layer.feature = PackedLinear(weights.feature, {}, d, d);
  layer.norm1 = weights.norm1;
  layer.query = PackedLinear(weights.wq, {}, d, d);
  layer.key_value = PackedLinear(Stacked({weights.wk, weights.wv}), {}, 2 * config.kv_width(), d);
  layer.output = PackedLinear(weights.wo, {}, d, d);
  layer.norm2 = weights.norm2;
  layer.up = PackedLinear(weights.w1, weights.b1, config.d_ff, d);
  layer.down = PackedLinear(weights.w2, weights.b2, d, config.d_ff);
  layer.norm3 = weights.norm3;
  return layer;
}

PackedHead PackHead(const HeadWeights& weights, const ModelConfig& config) {
  PackedHead head;
  head.norm = weights.norm;
  head.up = PackedLinear(weights.w1, weights.b1, config.d_ff, config.d_model);
  head.down = PackedLinear(weights.w2, weights.b2, 3 * config.num_components, config.d_ff);
  head.mean_bias = weights.mean_bias;
  head.std_bias = weights.std_bias;
  head.weight_bias = weights.weight_bias;
  return head;
}

}  // namespace

PackedModel::PackedModel(const Model& model)
    : config_(model.config),
      head_(PackHead(model.head, model.config)),
      y_weight_(model.embedding.y_weight),
      offsets_(TokenOffsets(model.embedding, model.config)),
      row_encoder_(MakeRowEncoder(model)) {
  for (const LayerWeights& layer : model.layers) {
    schedule_.push_back(PackLayer(layer, model.config));
  }
}

}  // namespace chorale::cpu
