#include "tests/kernels/cuda/row_encoder/cell_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/integer_math.h"
#include "kernels/ops/cell_features.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {

CellShape CellSizes::shape() const {
  const double head_width = static_cast<double>(width) / heads;
  return {.width = width,
          .epsilon = 1e-5f,
          .score_scale = static_cast<float>(std::numbers::log2e / std::sqrt(head_width))};
}

Matrix RandomCellMatrix(int64_t out, int64_t in, uint32_t seed) {
  Matrix matrix = {RandomTensor(out * in, seed, 1 / std::sqrt(static_cast<float>(in))), out, in};
  for (float& w : matrix.values) w = FromBf16(ToBf16(w));
  return matrix;
}

Token RoundedToBf16(Token values) {
  for (double& x : values) x = FromBf16(ToBf16(static_cast<float>(x)));
  return values;
}

Token CellProduct(const Matrix& w, const Token& x) {
  Token y(w.out);
  for (int64_t o = 0; o < w.out; ++o) {
    for (int64_t i = 0; i < w.in; ++i) y[o] += static_cast<double>(w.values[o * w.in + i]) * x[i];
  }
  return y;
}

Token CellSum(Token a, const Token& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Token CellNorm(const Token& x, const std::vector<float>& gamma, const std::vector<float>& beta) {
  const auto n = static_cast<double>(x.size());
  double mean = 0;
  for (double v : x) mean += v / n;
  double variance = 0;
  for (double v : x) variance += (v - mean) * (v - mean) / n;
  Token y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * gamma[i] + beta[i];
  }
  return y;
}

// ---- Blocks --------------------------------------------------------------------------------

CellBlockReference::CellBlockReference(const CellSizes& sizes, uint32_t seed, float sharpness)
    : sizes_(sizes) {
  const int e = sizes.width;
  const auto vector = [&](int n, uint32_t more, float center, float spread) {
    std::vector<float> values = RandomTensor(n, seed + more, spread);
    for (float& v : values) v += center;
    return values;
  };
  weights_ = {.wq = RandomCellMatrix(e, e, seed),
              .wk = RandomCellMatrix(e, e, seed + 1),
              .wv = RandomCellMatrix(e, e, seed + 2),
              .wo = RandomCellMatrix(e, e, seed + 3),
              .w1 = RandomCellMatrix(2 * e, e, seed + 4),
              .w2 = RandomCellMatrix(e, 2 * e, seed + 5),
              .gamma1 = vector(e, 6, 1, 0.2f),
              .beta1 = vector(e, 7, 0, 0.2f),
              .gamma2 = vector(e, 8, 1, 0.2f),
              .beta2 = vector(e, 9, 0, 0.2f),
              .b1 = vector(2 * e, 10, 0, 0.3f),
              .b2 = vector(e, 11, 0, 0.3f)};
  for (float& w : weights_.wq.values) w *= sharpness;
}

Tokens CellBlockReference::KeysValues(const Tokens& memory) const {
  Tokens all;
  for (const Token& token : memory) {
    const Token h = RoundedToBf16(CellNorm(token, weights_.gamma1, weights_.beta1));
    Token keys = CellProduct(weights_.wk, h);
    const Token values = CellProduct(weights_.wv, h);
    keys.insert(keys.end(), values.begin(), values.end());
    all.push_back(RoundedToBf16(keys));
  }
  return all;
}

Token CellBlockReference::Attended(const Token& x, const Tokens& keys_values) const {
  const int e = sizes_.width;
  const int head_width = e / sizes_.heads;
  const Token q = RoundedToBf16(
      CellProduct(weights_.wq, RoundedToBf16(CellNorm(x, weights_.gamma1, weights_.beta1))));
  Token attended(e);
  for (int begin = 0; begin < e; begin += head_width) {
    std::vector<double> scores;
    for (const Token& kv : keys_values) {
      double score = 0;
      for (int d = begin; d < begin + head_width; ++d) score += q[d] * kv[d];
      scores.push_back(score / std::sqrt(static_cast<double>(head_width)));
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (size_t key = 0; key < scores.size(); ++key) {
      for (int d = begin; d < begin + head_width; ++d) {
        attended[d] += scores[key] / sum * keys_values[key][e + d];
      }
    }
  }
  return attended;
}

Token CellBlockReference::Finish(Token x, const Token& attended) const {
  x = CellSum(std::move(x), CellProduct(weights_.wo, RoundedToBf16(attended)));
  Token hidden =
      CellProduct(weights_.w1, RoundedToBf16(CellNorm(x, weights_.gamma2, weights_.beta2)));
  for (size_t i = 0; i < hidden.size(); ++i) {
    const double h = hidden[i] + weights_.b1[i];
    hidden[i] = 0.5 * h * std::erfc(-h / std::numbers::sqrt2);
  }
  x = CellSum(std::move(x), CellProduct(weights_.w2, RoundedToBf16(hidden)));
  return CellSum(std::move(x), Token(weights_.b2.begin(), weights_.b2.end()));
}

// ---- Tokens --------------------------------------------------------------------------------

Tokens ToTokens(const std::vector<float>& values, int64_t width) {
  Tokens tokens;
  for (auto at = values.begin(); at != values.end(); at += width)
    tokens.emplace_back(at, at + width);
  return tokens;
}

std::vector<float> Padded(const Tokens& tokens) {
  std::vector<float> padded;
  for (const Token& token : tokens) {
    padded.insert(padded.end(), token.begin(), token.end());
    padded.resize(RoundUp(static_cast<int64_t>(padded.size()), kCellWidth));
  }
  return padded;
}

std::vector<float> TiledCells(const std::vector<Tokens>& rows) {
  const int64_t tiles = CellTiles(static_cast<int64_t>(rows.front().size()));
  std::vector<float> tiled(rows.size() * tiles * kCellTile,
                           std::numeric_limits<float>::quiet_NaN());
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t column = 0; column < rows[row].size(); ++column) {
      float* tile = tiled.data() + (row * tiles + column / kCellTileTokens) * kCellTile;
      for (int d = 0; d < kCellWidth; ++d) {
        const Token& cell = rows[row][column];
        tile[CellAt(static_cast<int>(column % kCellTileTokens), d)] =
            d < static_cast<int>(cell.size()) ? static_cast<float>(cell[d]) : 0.0f;
      }
    }
  }
  return tiled;
}

Token CellOf(const std::vector<float>& tiled, int row, int column, int columns, int width) {
  const float* tile =
      tiled.data() + (row * CellTiles(columns) + column / kCellTileTokens) * kCellTile;
  Token cell;
  for (int d = 0; d < width; ++d) cell.push_back(tile[CellAt(column % kCellTileTokens, d)]);
  return cell;
}

// ---- Tables --------------------------------------------------------------------------------

CellTableCase::CellTableCase(int rows, int columns, uint32_t seed)
    : rows_(rows),
      columns_(columns),
      values_(RandomTensor(static_cast<int64_t>(rows) * columns, seed, 2)),
      missing_(values_.size()),
      categorical_(columns),
      y_(RandomTensor(rows, seed + 1)) {
  for (size_t i = 0; i < values_.size(); i += 7) missing_[i] = 1;
  for (size_t i = 3; i < values_.size(); i += 11) values_[i] *= 1e4f;
  categorical_.back() = 1;
  values_on_device_ = DeviceArray<float>(values_);
  y_on_device_ = DeviceArray<float>(y_);
  missing_on_device_ = DeviceArray<uint8_t>(missing_);
  categorical_on_device_ = DeviceArray<uint8_t>(categorical_);
}

CellTable CellTableCase::OnDevice(bool with_y) const {
  return {.values = values_on_device_.data(),
          .missing = missing_on_device_.data(),
          .categorical = categorical_on_device_.data(),
          .y = with_y ? y_on_device_.data() : nullptr,
          .rows = rows_,
          .columns = columns_};
}

Token CellTableCase::Features(int row, int column, bool with_y) const {
  const int at = row * columns_ + column;
  std::vector<float> features(kCellFeatures + (with_y ? kNumberFeatures : 0));
  kernels::reference::CellFeatures({.values = values_.data() + at,
                                    .missing = missing_.data() + at,
                                    .y = with_y ? y_.data() + row : nullptr,
                                    .out = features.data(),
                                    .rows = 1,
                                    .value_stride = columns_,
                                    .categorical = static_cast<float>(categorical_[column])});
  return {features.begin(), features.end()};
}

CellEmbeddingCase::CellEmbeddingCase(const CellSizes& sizes, int inputs, uint32_t seed)
    : matrix(RandomCellMatrix(sizes.width, inputs, seed)),
      bias(RandomTensor(sizes.width, seed + 1)) {}

std::vector<float> CellEmbeddingCase::Packed() const {
  std::vector<float> packed((matrix.in + 1) * kCellWidth);
  for (int64_t e = 0; e < matrix.out; ++e) {
    for (int64_t i = 0; i < matrix.in; ++i) {
      packed[i * kCellWidth + e] = matrix.values[e * matrix.in + i];
    }
    packed[matrix.in * kCellWidth + e] = bias[e];
  }
  return packed;
}

Token CellEmbeddingCase::Embed(const Token& features) const {
  return CellSum(CellProduct(matrix, features), Token(bias.begin(), bias.end()));
}

}  // namespace chorale::kernels::cuda
