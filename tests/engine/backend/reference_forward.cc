#include "tests/engine/backend/reference_forward.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>

#include "tests/engine/backend/reference_row_encoder.h"

namespace chorale::reference {
namespace {

// Whether row i attends to own key j, among the rows that go through the model together.
using Mask = std::function<bool(int64_t i, int64_t j)>;

double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

enum Marker { kQueryRow = 0, kContext = 1, kBuffer = 2 };

Vector Embed(const Model& model, Vector encoding, Marker marker) {
  const size_t d = encoding.size();
  for (size_t i = 0; i < d; ++i) encoding[i] += model.embedding.marker[marker * d + i];
  return encoding;
}

Vector AddY(const Model& model, Vector token, double y) {
  for (size_t i = 0; i < token.size(); ++i) {
    token[i] += model.embedding.y_weight[i] * y + model.embedding.y_bias[i];
  }
  return token;
}

// Of the keys of the context, then of so many keys in total that the rows' own have 0.
Vector LogWeights(const KeyValues* context, int64_t layer, int64_t kv_head, size_t keys) {
  if (context == nullptr || context->log_weights.empty()) return {};
  Vector log_weights;
  for (const Vector& key : context->log_weights[layer]) log_weights.push_back(key[kv_head]);
  log_weights.resize(keys);
  return log_weights;
}

// All rows through one layer. Their keys and values are returned; `context` may be null.
std::pair<Rows, Rows> Layer(const Model& model, int64_t index, const KeyValues* context,
                            const Mask& mask, Rows& x) {
  const ModelConfig& config = model.config;
  const LayerWeights& layer = model.layers[index];
  Rows keys, values;
  for (Vector& row : x) {
    row = MixFeatures(model, layer, row);
    keys.push_back(Linear(layer.wk, {}, row));
    values.push_back(Linear(layer.wv, {}, row));
  }
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<std::pair<const Vector*, const Vector*>> pairs;
    if (context != nullptr) {
      for (size_t j = 0; j < context->keys[index].size(); ++j) {
        pairs.emplace_back(&context->keys[index][j], &context->values[index][j]);
      }
    }
    for (size_t j = 0; j < x.size(); ++j) {
      if (mask(i, j)) pairs.emplace_back(&keys[j], &values[j]);
    }
    const Vector q = Linear(layer.wq, {}, x[i]);
    Vector attended(q.size());
    const int64_t width = config.head_dim();
    for (int64_t h = 0; h < config.n_heads; ++h) {
      const int64_t kv_head = h / (config.n_heads / config.n_kv_heads);
      AttendHead(width, q, h * width, kv_head * width, pairs, attended,
                 LogWeights(context, index, kv_head, pairs.size()));
    }
    x[i] = FinishLayer(model, layer, x[i], attended);
  }
  return {std::move(keys), std::move(values)};
}

KeyValues AllLayers(const Model& model, const KeyValues* context, const Mask& mask, Rows& x) {
  KeyValues own;
  for (int64_t l = 0; l < model.config.n_layers; ++l) {
    auto [keys, values] = Layer(model, l, context, mask, x);
    own.keys.push_back(std::move(keys));
    own.values.push_back(std::move(values));
  }
  return own;
}

Mixture Head(const Model& model, const Vector& x) {
  const HeadWeights& head = model.head;
  const ModelConfig& config = model.config;
  const Vector z = LayerNorm(head.norm, config.layer_norm_eps, x);
  const Vector raw = Linear(head.w2, head.b2, Gelu(Linear(head.w1, head.b1, z)));
  Mixture mixture;
  for (int64_t j = 0; j < config.num_components; ++j) {
    mixture.mean.push_back(raw[3 * j] + head.mean_bias[j]);
    mixture.std.push_back(
        std::min<double>(Softplus(raw[3 * j + 1] + head.std_bias[j]), config.std_max) +
        config.std_min);
    mixture.log_weight.push_back(raw[3 * j + 2] + head.weight_bias[j]);
  }
  const double lse = LogSumExp(mixture.log_weight);
  for (double& log_weight : mixture.log_weight) log_weight -= lse;
  return mixture;
}

}  // namespace

Vector QueryToken(const Model& model, Vector encoding) {
  return Embed(model, std::move(encoding), kQueryRow);
}

Vector ContextToken(const Model& model, Vector encoding, double y) {
  return AddY(model, Embed(model, std::move(encoding), kContext), y);
}

Vector MixFeatures(const Model& model, const LayerWeights& layer, const Vector& x) {
  return LayerNorm(layer.norm1, model.config.layer_norm_eps, Add(x, Linear(layer.feature, {}, x)));
}

Vector FinishLayer(const Model& model, const LayerWeights& layer, const Vector& x,
                   const Vector& attended) {
  const double epsilon = model.config.layer_norm_eps;
  const Vector y = LayerNorm(layer.norm2, epsilon, Add(x, Linear(layer.wo, {}, attended)));
  const Vector hidden = Gelu(Linear(layer.w1, layer.b1, y));
  return LayerNorm(layer.norm3, epsilon, Add(y, Linear(layer.w2, layer.b2, hidden)));
}

double LogDensity(const Mixture& mixture, double y) {
  Vector terms;
  for (size_t j = 0; j < mixture.mean.size(); ++j) {
    const double z = (y - mixture.mean[j]) / mixture.std[j];
    terms.push_back(mixture.log_weight[j] - z * z / 2 - std::log(mixture.std[j]) -
                    std::log(2 * std::numbers::pi) / 2);
  }
  return LogSumExp(terms);
}

KeyValues EncodeContext(const Model& model, const FeatureMatrix& x, const std::vector<float>& y,
                        const std::vector<int64_t>& append_starts) {
  Rows rows = EncodeContextRows(model, x, y, append_starts);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = ContextToken(model, std::move(rows[i]), y[i]);
  }
  const Mask mask = [&](int64_t i, int64_t j) {
    return std::none_of(append_starts.begin(), append_starts.end(),
                        [&](int64_t start) { return i < start && start <= j; });
  };
  return AllLayers(model, nullptr, mask, rows);
}

std::vector<Mixture> Predict(const Model& model, const KeyValues& context, const Rows& query_rows) {
  Rows rows;
  for (const Vector& encoding : query_rows) rows.push_back(QueryToken(model, encoding));
  AllLayers(
      model, &context, [](int64_t, int64_t) { return false; }, rows);
  std::vector<Mixture> mixtures;
  for (const Vector& row : rows) mixtures.push_back(Head(model, row));
  return mixtures;
}

std::vector<Mixture> TeacherForce(const Model& model, const KeyValues& context,
                                  const Rows& query_rows, const std::vector<int32_t>& order,
                                  const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(query_rows.size());
  const int64_t d = model.config.d_model;
  const auto encoding = [&](int64_t position) {
    return query_rows[order.empty() ? position : order[position]];
  };
  // Buffer tokens in rows 0..T-1, query rows in rows T..2T-1.
  Rows rows;
  for (int64_t t = 0; t < count; ++t) {
    Vector token = AddY(model, Embed(model, encoding(t), kBuffer), values[t]);
    const int64_t offset = t % model.config.buffer_size;
    for (int64_t i = 0; i < d; ++i) token[i] += model.embedding.ar_tokens[offset * d + i];
    rows.push_back(std::move(token));
  }
  for (int64_t t = 0; t < count; ++t) rows.push_back(QueryToken(model, encoding(t)));
  const Mask mask = [count](int64_t i, int64_t j) {
    if (j >= count) return false;  // nothing attends to a query row
    return i < count ? j <= i : j < i - count;
  };
  AllLayers(model, &context, mask, rows);
  std::vector<Mixture> mixtures;
  for (int64_t t = 0; t < count; ++t) mixtures.push_back(Head(model, rows[count + t]));
  return mixtures;
}

}  // namespace chorale::reference
