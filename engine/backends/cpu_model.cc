#include "engine/backends/cpu_model.h"

#include <utility>

#include "kernels/layout.h"
#include "kernels/linear.h"

namespace chorale {
namespace {

std::vector<float> Concatenate(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> joined = a;
  joined.insert(joined.end(), b.begin(), b.end());
  return joined;
}

CpuLayer PackLayer(const LayerWeights& weights, const ModelConfig& config) {
  const int64_t d = config.d_model;
  CpuLayer layer;
  layer.feature = PackedLinear(weights.feature, {}, d, d);
  layer.norm1 = weights.norm1;
  layer.query = PackedLinear(weights.wq, {}, d, d);
  layer.key_value = PackedLinear(Concatenate(weights.wk, weights.wv), {}, 2 * config.kv_width(), d);
  layer.output = PackedLinear(weights.wo, {}, d, d);
  layer.norm2 = weights.norm2;
  layer.up = PackedLinear(weights.w1, weights.b1, config.d_ff, d);
  layer.down = PackedLinear(weights.w2, weights.b2, d, config.d_ff);
  layer.norm3 = weights.norm3;
  return layer;
}

CpuHead PackHead(const HeadWeights& weights, const ModelConfig& config) {
  CpuHead head;
  head.norm = weights.norm;
  head.up = PackedLinear(weights.w1, weights.b1, config.d_ff, config.d_model);
  head.down = PackedLinear(weights.w2, weights.b2, 3 * config.num_components, config.d_ff);
  head.mean_bias = weights.mean_bias;
  head.std_bias = weights.std_bias;
  head.weight_bias = weights.weight_bias;
  return head;
}

// [2 + K, D]: target marker; context marker + y bias; buffer marker + y bias + ar_tokens[i].
std::vector<float> TokenOffsets(const EmbeddingWeights& weights, const ModelConfig& config) {
  const int64_t d = config.d_model;
  std::vector<float> offsets((2 + config.buffer_size) * d);
  for (int64_t i = 0; i < d; ++i) {
    const double y_bias = weights.y_bias[i];
    offsets[i] = weights.marker[i];
    offsets[d + i] = static_cast<float>(weights.marker[d + i] + y_bias);
    for (int64_t place = 0; place < config.buffer_size; ++place) {
      offsets[(2 + place) * d + i] =
          static_cast<float>(weights.marker[2 * d + i] + y_bias + weights.ar_tokens[place * d + i]);
    }
  }
  return offsets;
}

}  // namespace

PackedLinear::PackedLinear(const std::vector<float>& weight, const std::vector<float>& bias,
                           int64_t out, int64_t in)
    : weight_(kernels::PackedLinearSize(out, in)), bias_(bias), out_(out), in_(in) {
  kernels::PackLinearWeight(weight.data(), out, in, weight_.data());
}

absl::StatusOr<std::shared_ptr<const CpuModel>> CpuModel::Create(const Model& model) {
  absl::StatusOr<std::unique_ptr<const RowEncoder>> row_encoder = MakeRowEncoder(model);
  if (!row_encoder.ok()) return row_encoder.status();
  const std::shared_ptr<CpuModel> packed(new CpuModel);
  packed->config_ = model.config;
  packed->row_encoder_ = *std::move(row_encoder);
  for (const LayerWeights& layer : model.layers) {
    packed->layers_.push_back(PackLayer(layer, model.config));
  }
  packed->head_ = PackHead(model.head, model.config);
  packed->y_weight_ = model.embedding.y_weight;
  packed->offsets_ = TokenOffsets(model.embedding, model.config);
  return packed;
}

}  // namespace chorale
