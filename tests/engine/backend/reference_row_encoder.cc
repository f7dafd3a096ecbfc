#include "tests/engine/backend/reference_row_encoder.h"

#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>
#include <variant>

#include "engine/data/feature_rows.h"

namespace chorale::reference {
namespace {

Vector ToVector(const std::vector<float>& values, int64_t first, int64_t n) {
  return Vector(values.begin() + first, values.begin() + first + n);
}

// ---- feature_mean --------------------------------------------------------------------------

Vector EncodeMean(const FeatureMeanWeights& weights, const FeatureMatrix& x, int64_t row) {
  double mean = 0;
  for (int64_t f = 0; f < x.features; ++f) mean += x.x[row * x.features + f];
  mean /= static_cast<double>(x.features);
  Vector encoding(weights.weight.size());
  for (size_t i = 0; i < encoding.size(); ++i) {
    encoding[i] = weights.weight[i] * mean + weights.bias[i];
  }
  return encoding;
}

// ---- cell_attention ------------------------------------------------------------------------

// The soft-clipped number, then the sines, then the cosines of its multiples by 1, 2, ..., 64.
Vector NumberFeatures(double x) {
  const double c = std::abs(x) <= 3 ? x : std::copysign(3 + std::log(1 + std::abs(x) - 3), x);
  Vector features = {c};
  for (int k = 0; k < 7; ++k) features.push_back(std::sin(std::ldexp(c, k)));
  for (int k = 0; k < 7; ++k) features.push_back(std::cos(std::ldexp(c, k)));
  return features;
}

class CellAttention {
 public:
  CellAttention(const CellAttentionWeights& weights, const ModelConfig& config)
      : weights_(weights), config_(config) {}

  struct State {
    std::vector<Rows> points;  // [F] of [I][E]
    Rows gates;                // [F][E]
  };

  State Fit(const FeatureMatrix& context, const std::vector<float>& y) const {
    std::vector<Rows> points;
    Rows columns;
    for (int64_t f = 0; f < context.features; ++f) {
      Rows cells;
      for (int64_t row = 0; row < context.rows; ++row) {
        cells.push_back(
            Add(Cell(context, row, f), Linear(weights_.target, {}, NumberFeatures(y[row]))));
      }
      points.push_back(Block(weights_.summarise, Learned(weights_.points), &cells));
      Vector column = ColumnId(f);
      for (const Vector& point : points.back()) {
        for (size_t e = 0; e < column.size(); ++e) {
          column[e] += point[e] / static_cast<double>(points.back().size());
        }
      }
      columns.push_back(std::move(column));
    }
    columns = Block(weights_.mix_columns, std::move(columns), nullptr);
    for (size_t f = 0; f < points.size(); ++f) {
      for (Vector& point : points[f]) point = Add(std::move(point), columns[f]);
    }
    Rows gates;
    for (const Vector& column : columns) {
      gates.push_back(Linear(weights_.gate, weights_.gate_bias, column));
    }
    return {std::move(points), std::move(gates)};
  }

  Vector Encode(const State& state, const FeatureMatrix& x, int64_t row) const {
    Rows cells;
    Vector gated(config_.encoder_width);
    for (int64_t f = 0; f < x.features; ++f) {
      const Vector cell = Cell(x, row, f);
      for (size_t e = 0; e < gated.size(); ++e) gated[e] += state.gates[f][e] * cell[e];
      const Rows read = Block(weights_.read_column, {cell}, &state.points[f]);
      cells.push_back(Add(read[0], ColumnId(f)));
    }
    for (const EncoderBlockWeights& layer : weights_.row_layers) {
      cells = Block(layer, std::move(cells), nullptr);
    }
    Vector flat;
    for (const Vector& token : Block(weights_.pool, Learned(weights_.pooled), &cells)) {
      const Vector normed = LayerNorm(weights_.out_norm, config_.layer_norm_eps, token);
      flat.insert(flat.end(), normed.begin(), normed.end());
    }
    return LayerNorm(
        weights_.norm, config_.layer_norm_eps,
        Add(Linear(weights_.out, weights_.out_bias, flat), Linear(weights_.direct, {}, gated)));
  }

 private:
  Vector Cell(const FeatureMatrix& x, int64_t row, int64_t f) const {
    const int64_t place = row * x.features + f;
    const bool missing = !x.missing.empty() && x.missing[place] != 0;
    Vector features = NumberFeatures(x.x[place]);
    if (missing) features.assign(features.size(), 0);
    features.push_back(missing ? 1 : 0);
    features.push_back(!x.categorical.empty() && x.categorical[f] != 0 ? 1 : 0);
    return Linear(weights_.cell, weights_.cell_bias, features);
  }

  Vector ColumnId(int64_t f) const {
    return ToVector(weights_.column_id, f * config_.encoder_width, config_.encoder_width);
  }

  Rows Learned(const std::vector<float>& tokens) const {
    const int64_t width = config_.encoder_width;
    Rows rows;
    for (int64_t i = 0; i < static_cast<int64_t>(tokens.size()); i += width) {
      rows.push_back(ToVector(tokens, i, width));
    }
    return rows;
  }

  // Null memory: the tokens themselves.
  Rows Block(const EncoderBlockWeights& block, Rows x, const Rows* memory) const {
    const double epsilon = config_.layer_norm_eps;
    const int64_t head_width = config_.encoder_width / config_.encoder_heads;
    Rows keys, values;
    for (const Vector& token : memory == nullptr ? x : *memory) {
      const Vector normed = LayerNorm(block.norm1, epsilon, token);
      keys.push_back(Linear(block.wk, {}, normed));
      values.push_back(Linear(block.wv, {}, normed));
    }
    std::vector<std::pair<const Vector*, const Vector*>> pairs;
    for (size_t j = 0; j < keys.size(); ++j) pairs.emplace_back(&keys[j], &values[j]);
    for (Vector& token : x) {
      const Vector q = Linear(block.wq, {}, LayerNorm(block.norm1, epsilon, token));
      Vector attended(q.size());
      for (int64_t begin = 0; begin < config_.encoder_width; begin += head_width) {
        AttendHead(head_width, q, begin, begin, pairs, attended);
      }
      token = Add(std::move(token), Linear(block.wo, {}, attended));
      const Vector normed = LayerNorm(block.norm2, epsilon, token);
      token = Add(std::move(token),
                  Linear(block.w2, block.b2, Gelu(Linear(block.w1, block.b1, normed))));
    }
    return x;
  }

  const CellAttentionWeights& weights_;
  const ModelConfig& config_;
};

}  // namespace

Rows EncodeRows(const Model& model, const FeatureMatrix& context, const std::vector<float>& y,
                const FeatureMatrix& x) {
  Rows rows;
  if (const auto* weights = std::get_if<CellAttentionWeights>(&model.row_encoder)) {
    const CellAttention encoder(*weights, model.config);
    const CellAttention::State state = encoder.Fit(context, y);
    for (int64_t row = 0; row < x.rows; ++row) rows.push_back(encoder.Encode(state, x, row));
    return rows;
  }
  for (int64_t row = 0; row < x.rows; ++row) {
    rows.push_back(EncodeMean(std::get<FeatureMeanWeights>(model.row_encoder), x, row));
  }
  return rows;
}

Rows EncodeContextRows(const Model& model, const FeatureMatrix& x, const std::vector<float>& y,
                       const std::vector<int64_t>& append_starts) {
  std::vector<int32_t> base(append_starts.empty() ? x.rows : append_starts.front());
  std::iota(base.begin(), base.end(), 0);
  return EncodeRows(model, SelectRows(x, base), {y.begin(), y.begin() + std::ssize(base)}, x);
}

}  // namespace chorale::reference
