#include "engine/model/row_encoder_weights.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/cell_features.h"

namespace chorale {
namespace {

EncoderBlockWeights TakeBlock(WeightReader& reader, const std::string& name, int64_t width) {
  EncoderBlockWeights block;
  block.norm1 = TakeNorm(reader, name + ".norm1", width);
  block.wq = reader.Take(name + ".q_proj.weight", {width, width});
  block.wk = reader.Take(name + ".k_proj.weight", {width, width});
  block.wv = reader.Take(name + ".v_proj.weight", {width, width});
  block.wo = reader.Take(name + ".out_proj.weight", {width, width});
  block.norm2 = TakeNorm(reader, name + ".norm2", width);
  block.w1 = reader.Take(name + ".ff.0.weight", {2 * width, width});
  block.b1 = reader.Take(name + ".ff.0.bias", {2 * width});
  block.w2 = reader.Take(name + ".ff.2.weight", {width, 2 * width});
  block.b2 = reader.Take(name + ".ff.2.bias", {width});
  return block;
}

}  // namespace

LayerNormWeights TakeNorm(WeightReader& reader, const std::string& name, int64_t width) {
  return {.gamma = reader.Take(name + ".weight", {width}),
          .beta = reader.Take(name + ".bias", {width})};
}

FeatureMeanWeights TakeFeatureMean(WeightReader& reader, const ModelConfig& config) {
  return {.weight = reader.Take("embedder.x_embed.weight", {config.d_model, 1}),
          .bias = reader.Take("embedder.x_embed.bias", {config.d_model})};
}

CellAttentionWeights TakeCellAttention(WeightReader& reader, const ModelConfig& config) {
  const std::string prefix = "row_encoder.";
  const int64_t e = config.encoder_width;
  const int64_t pooled_width = config.encoder_pooled_tokens * e;
  CellAttentionWeights weights;
  weights.cell = reader.Take(prefix + "cell.weight", {e, kernels::kCellFeatures});
  weights.cell_bias = reader.Take(prefix + "cell.bias", {e});
  weights.target = reader.Take(prefix + "target.weight", {e, kernels::kNumberFeatures});
  weights.column_id = reader.Take(prefix + "column_id", {config.max_features, e});
  weights.points = reader.Take(prefix + "points", {config.encoder_induced_points, e});
  weights.pooled = reader.Take(prefix + "pooled", {config.encoder_pooled_tokens, e});
  weights.summarise = TakeBlock(reader, prefix + "summarise", e);
  weights.mix_columns = TakeBlock(reader, prefix + "mix_columns", e);
  weights.read_column = TakeBlock(reader, prefix + "read_column", e);
  for (int64_t l = 0; l < config.encoder_row_layers && reader.ok(); ++l) {
    weights.row_layers.push_back(TakeBlock(reader, absl::StrCat(prefix, "row_layers.", l), e));
  }
  weights.pool = TakeBlock(reader, prefix + "pool", e);
  weights.gate = reader.Take(prefix + "gate.weight", {e, e});
  weights.gate_bias = reader.Take(prefix + "gate.bias", {e});
  weights.direct = reader.Take(prefix + "direct.weight", {config.d_model, e});
  weights.out_norm = TakeNorm(reader, prefix + "out_norm", e);
  weights.out = reader.Take(prefix + "out.weight", {config.d_model, pooled_width});
  weights.out_bias = reader.Take(prefix + "out.bias", {config.d_model});
  weights.norm = TakeNorm(reader, prefix + "norm", config.d_model);
  return weights;
}

}  // namespace chorale
