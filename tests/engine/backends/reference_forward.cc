#include "tests/engine/backends/reference_forward.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>

namespace chorale::reference {
namespace {

// Whether row i attends to own key j, among the rows that go through the model together.
using Mask = std::function<bool(int64_t i, int64_t j)>;

// W x + b; b may be empty.
Vector Linear(const std::vector<float>& w, const std::vector<float>& b, const Vector& x) {
  Vector y(w.size() / x.size());
  for (size_t o = 0; o < y.size(); ++o) {
    y[o] = b.empty() ? 0.0 : b[o];
    for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
  }
  return y;
}

Vector Add(Vector a, const Vector& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Vector LayerNorm(const LayerNormWeights& norm, double epsilon, const Vector& x) {
  const double n = static_cast<double>(x.size());
  double mean = 0;
  for (double value : x) mean += value / n;
  double variance = 0;
  for (double value : x) variance += (value - mean) * (value - mean) / n;
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(variance + epsilon) * norm.gamma[i] + norm.beta[i];
  }
  return y;
}

Vector Gelu(Vector x) {
  for (double& value : x) value = value / 2 * (1 + std::erf(value / std::numbers::sqrt2));
  return x;
}

double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double LogSumExp(const Vector& x) {
  const double max = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double value : x) sum += std::exp(value - max);
  return max + std::log(sum);
}

Vector EncodeRow(const Model& model, const FeatureMatrix& x, int64_t row) {
  double mean = 0;
  for (int64_t f = 0; f < x.features; ++f) mean += x.x[row * x.features + f];
  mean /= static_cast<double>(x.features);
  Vector encoding(model.config.d_model);
  for (size_t i = 0; i < encoding.size(); ++i) {
    encoding[i] = model.feature_mean.weight[i] * mean + model.feature_mean.bias[i];
  }
  return encoding;
}

enum Marker { kTarget = 0, kContext = 1, kBuffer = 2 };

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

// Softmax attention of head h of q over (key, value) pairs, into out.
void AttendHead(const ModelConfig& config, const Vector& q, int64_t h,
                const std::vector<std::pair<const Vector*, const Vector*>>& pairs, Vector& out) {
  const int64_t width = config.head_dim();
  const int64_t kv_begin = h / (config.n_heads / config.n_kv_heads) * width;
  Vector scores;
  for (const auto& [key, value] : pairs) {
    double score = 0;
    for (int64_t d = 0; d < width; ++d) score += q[h * width + d] * (*key)[kv_begin + d];
    scores.push_back(score / std::sqrt(static_cast<double>(width)));
  }
  const double lse = LogSumExp(scores);
  for (size_t k = 0; k < pairs.size(); ++k) {
    const double weight = std::exp(scores[k] - lse);
    for (int64_t d = 0; d < width; ++d) {
      out[h * width + d] += weight * (*pairs[k].second)[kv_begin + d];
    }
  }
}

// All rows through one layer. Their keys and values are returned; `context` may be null.
std::pair<Rows, Rows> Layer(const Model& model, int64_t index, const KeyValues* context,
                            const Mask& mask, Rows& x) {
  const ModelConfig& config = model.config;
  const LayerWeights& layer = model.layers[index];
  const double epsilon = config.layer_norm_eps;
  Rows keys, values;
  for (Vector& row : x) {
    row = LayerNorm(layer.norm1, epsilon, Add(row, Linear(layer.feature, {}, row)));
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
    for (int64_t h = 0; h < config.n_heads; ++h) AttendHead(config, q, h, pairs, attended);
    x[i] = LayerNorm(layer.norm2, epsilon, Add(x[i], Linear(layer.wo, {}, attended)));
    const Vector hidden = Gelu(Linear(layer.w1, layer.b1, x[i]));
    x[i] = LayerNorm(layer.norm3, epsilon, Add(x[i], Linear(layer.w2, layer.b2, hidden)));
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

double LogDensity(const Mixture& mixture, double y) {
  Vector terms;
  for (size_t j = 0; j < mixture.mean.size(); ++j) {
    const double z = (y - mixture.mean[j]) / mixture.std[j];
    terms.push_back(mixture.log_weight[j] - z * z / 2 - std::log(mixture.std[j]) -
                    std::log(2 * std::numbers::pi) / 2);
  }
  return LogSumExp(terms);
}

KeyValues EncodeContext(const Model& model, const FeatureMatrix& x, const std::vector<float>& y) {
  Rows rows;
  for (int64_t i = 0; i < x.rows; ++i) {
    rows.push_back(AddY(model, Embed(model, EncodeRow(model, x, i), kContext), y[i]));
  }
  return AllLayers(
      model, nullptr, [](int64_t, int64_t) { return true; }, rows);
}

std::vector<Mixture> Predict(const Model& model, const KeyValues& context,
                             const FeatureMatrix& targets) {
  Rows rows;
  for (int64_t i = 0; i < targets.rows; ++i) {
    rows.push_back(Embed(model, EncodeRow(model, targets, i), kTarget));
  }
  AllLayers(
      model, &context, [](int64_t, int64_t) { return false; }, rows);
  std::vector<Mixture> mixtures;
  for (const Vector& row : rows) mixtures.push_back(Head(model, row));
  return mixtures;
}

std::vector<Mixture> TeacherForce(const Model& model, const KeyValues& context,
                                  const FeatureMatrix& targets, const std::vector<int32_t>& order,
                                  const std::vector<float>& values) {
  const int64_t count = targets.rows;
  const int64_t d = model.config.d_model;
  const auto encoding = [&](int64_t place) {
    return EncodeRow(model, targets, order.empty() ? place : order[place]);
  };
  // Buffer tokens in rows 0..T-1, targets in rows T..2T-1.
  Rows rows;
  for (int64_t t = 0; t < count; ++t) {
    Vector token = AddY(model, Embed(model, encoding(t), kBuffer), values[t]);
    const int64_t place = t % model.config.buffer_size;
    for (int64_t i = 0; i < d; ++i) token[i] += model.embedding.ar_tokens[place * d + i];
    rows.push_back(std::move(token));
  }
  for (int64_t t = 0; t < count; ++t) rows.push_back(Embed(model, encoding(t), kTarget));
  const Mask mask = [count](int64_t i, int64_t j) {
    if (j >= count) return false;  // nobody attends to a target
    return i < count ? j <= i : j < i - count;
  };
  AllLayers(model, &context, mask, rows);
  std::vector<Mixture> mixtures;
  for (int64_t t = 0; t < count; ++t) mixtures.push_back(Head(model, rows[count + t]));
  return mixtures;
}

}  // namespace chorale::reference
