#include "tests/engine/backend/test_model.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/cell_features.h"

namespace chorale {
namespace {

// splitmix64: the same numbers with every standard library.
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u) {}

  // In [-1, 1), a multiple of 2^-23.
  float Uniform() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return static_cast<float>(static_cast<int64_t>(z >> 40) - (1 << 23)) / (1 << 23);
  }

  std::vector<float> Vector(int64_t n, float center, float spread) {
    std::vector<float> values(n);
    for (float& value : values) value = center + spread * Uniform();
    return values;
  }

  // [out, in], of a spread that keeps the variance of W x near that of x.
  std::vector<float> Matrix(int64_t out, int64_t in) {
    return Vector(out * in, 0, std::sqrt(3.0f / static_cast<float>(in)));
  }

  LayerNormWeights Norm(int64_t width) {
    return {.gamma = Vector(width, 1, 0.2f), .beta = Vector(width, 0, 0.2f)};
  }

 private:
  uint64_t state_;
};

ModelConfig MakeConfig(const TestModelOptions& options) {
  ModelConfig config;
  config.model_type = "ar_tabpfn";
  config.row_encoder = options.row_encoder;
  if (options.row_encoder == "cell_attention") {
    config.max_features = 12;
    config.encoder_width = 16;
    config.encoder_heads = 2;
    config.encoder_induced_points = 5;
    config.encoder_row_layers = 2;
    config.encoder_pooled_tokens = 3;
  }
  config.d_model = options.d_model;
  config.n_heads = options.n_heads;
  config.n_kv_heads = options.n_kv_heads;
  config.n_layers = options.n_layers;
  config.d_ff = options.d_ff;
  config.num_components = options.num_components;
  config.buffer_size = options.buffer_size;
  config.num_features = 2;
  config.std_min = 1e-3f;
  config.std_max = 2;
  config.normalize_x = options.normalize_x;
  config.normalize_y = options.normalize_y;
  config.notice = "random weights, for tests";
  return config;
}

LayerWeights MakeLayer(const ModelConfig& config, Generator& random) {
  const int64_t d = config.d_model;
  LayerWeights layer;
  layer.feature = random.Vector(d * d, 0, 0.5f * std::sqrt(3.0f / static_cast<float>(d)));
  layer.norm1 = random.Norm(d);
  layer.wq = random.Matrix(d, d);
  layer.wk = random.Matrix(config.kv_width(), d);
  layer.wv = random.Matrix(config.kv_width(), d);
  layer.wo = random.Matrix(d, d);
  layer.norm2 = random.Norm(d);
  layer.w1 = random.Matrix(config.d_ff, d);
  layer.b1 = random.Vector(config.d_ff, 0, 0.2f);
  layer.w2 = random.Matrix(d, config.d_ff);
  layer.b2 = random.Vector(d, 0, 0.2f);
  layer.norm3 = random.Norm(d);
  return layer;
}

EncoderBlockWeights MakeBlock(int64_t width, Generator& random) {
  EncoderBlockWeights block;
  block.norm1 = random.Norm(width);
  block.wq = random.Matrix(width, width);
  block.wk = random.Matrix(width, width);
  block.wv = random.Matrix(width, width);
  block.wo = random.Matrix(width, width);
  block.norm2 = random.Norm(width);
  block.w1 = random.Matrix(2 * width, width);
  block.b1 = random.Vector(2 * width, 0, 0.2f);
  block.w2 = random.Matrix(width, 2 * width);
  block.b2 = random.Vector(width, 0, 0.2f);
  return block;
}

CellAttentionWeights MakeCellAttention(const ModelConfig& config, Generator& random) {
  const int64_t e = config.encoder_width;
  CellAttentionWeights weights;
  weights.cell = random.Matrix(e, kernels::kCellFeatures);
  weights.cell_bias = random.Vector(e, 0, 0.2f);
  weights.target = random.Matrix(e, kernels::kNumberFeatures);
  weights.column_id = random.Vector(config.max_features * e, 0, 1);
  weights.points = random.Vector(config.encoder_induced_points * e, 0, 1);
  weights.pooled = random.Vector(config.encoder_pooled_tokens * e, 0, 1);
  weights.summarise = MakeBlock(e, random);
  weights.mix_columns = MakeBlock(e, random);
  weights.read_column = MakeBlock(e, random);
  for (int64_t l = 0; l < config.encoder_row_layers; ++l) {
    weights.row_layers.push_back(MakeBlock(e, random));
  }
  weights.pool = MakeBlock(e, random);
  weights.gate = random.Matrix(e, e);
  weights.gate_bias = random.Vector(e, 0, 0.5f);
  weights.direct = random.Matrix(config.d_model, e);
  weights.out_norm = random.Norm(e);
  weights.out = random.Matrix(config.d_model, config.encoder_pooled_tokens * e);
  weights.out_bias = random.Vector(config.d_model, 0, 0.2f);
  weights.norm = random.Norm(config.d_model);
  return weights;
}

}  // namespace

Model MakeTestModel(const TestModelOptions& options) {
  Generator random(options.seed);
  Model model;
  model.name = options.name;
  model.config = MakeConfig(options);
  model.digest = std::string(64, '0');
  const int64_t d = options.d_model;
  const int64_t m = options.num_components;
  model.embedding = {.y_weight = random.Vector(d, 0, 1),
                     .y_bias = random.Vector(d, 0, 0.3f),
                     .marker = random.Vector(3 * d, 0, 1),
                     .ar_tokens = random.Vector(options.buffer_size * d, 0, 0.5f)};
  if (options.row_encoder == "cell_attention") {
    model.row_encoder = MakeCellAttention(model.config, random);
  } else {
    model.row_encoder =
        FeatureMeanWeights{.weight = random.Vector(d, 0, 1), .bias = random.Vector(d, 0, 0.3f)};
  }
  for (int64_t l = 0; l < options.n_layers; ++l) {
    model.layers.push_back(MakeLayer(model.config, random));
  }
  model.head = {.norm = random.Norm(d),
                .w1 = random.Matrix(options.d_ff, d),
                .b1 = random.Vector(options.d_ff, 0, 0.2f),
                .w2 = random.Matrix(3 * m, options.d_ff),
                .b2 = random.Vector(3 * m, 0, 0.2f),
                .mean_bias = random.Vector(m, 0, 1),
                .std_bias = random.Vector(m, 0, 0.5f),
                .weight_bias = random.Vector(m, 0, 1)};
  return model;
}

Model MakeConstantModel(const std::vector<MixtureComponent>& mixture, TestModelOptions options) {
  options.num_components = static_cast<int64_t>(mixture.size());
  Model model = MakeTestModel(options);
  HeadWeights& head = model.head;
  std::fill(head.w2.begin(), head.w2.end(), 0.0f);
  std::fill(head.b2.begin(), head.b2.end(), 0.0f);
  for (size_t j = 0; j < mixture.size(); ++j) {
    head.mean_bias[j] = mixture[j].mean;
    // The inverse of softplus, less the floor that the head adds.
    const double softplus = static_cast<double>(mixture[j].std) - model.config.std_min;
    head.std_bias[j] = static_cast<float>(std::log(std::expm1(softplus)));
    head.weight_bias[j] = std::log(mixture[j].weight);
  }
  return model;
}

FeatureMatrix MakeFeatures(int64_t rows, int64_t features, uint64_t seed) {
  FeatureMatrix matrix = {
      .rows = rows, .features = features, .x = MakeValues(rows * features, seed)};
  matrix.missing.resize(matrix.x.size());
  for (size_t cell = 0; cell < matrix.x.size(); cell += 7) matrix.missing[cell] = 1;
  matrix.categorical.resize(features);
  if (features > 1) matrix.categorical.back() = 1;
  return matrix;
}

std::vector<float> MakeValues(int64_t n, uint64_t seed) {
  return Generator(seed ^ 0xD1B54A32D192ED03u).Vector(n, 0, 1);
}

}  // namespace chorale
