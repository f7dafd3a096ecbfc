#include "tests/kernels/cuda/layer/layer_problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cuda/layer/pack_weights.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "tests/kernels/cuda/device_tiles.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {
namespace {

constexpr float kNoPartial = std::numeric_limits<float>::quiet_NaN();
Matrix RandomLayerMatrix(int64_t out, int64_t in, uint32_t seed) {
  Matrix matrix = {RandomTensor(out * in, seed, 1 / std::sqrt(static_cast<float>(in))), out, in};
  for (float& w : matrix.values) w = FromBf16(ToBf16(w));
  return matrix;
}

Vector Rounded(Vector values) {
  for (double& x : values) x = FromBf16(ToBf16(static_cast<float>(x)));
  return values;
}

Vector Product(const Matrix& w, const Vector& x) {
  Vector y(w.out);
  for (int64_t o = 0; o < w.out; ++o) {
    for (int64_t i = 0; i < w.in; ++i) y[o] += static_cast<double>(w.values[o * w.in + i]) * x[i];
  }
  return y;
}

Vector Sum(Vector a, const Vector& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Vector Normalized(const Vector& x, const std::vector<float>& gamma,
                  const std::vector<float>& beta) {
  double mean = 0;
  for (double v : x) mean += v / static_cast<double>(x.size());
  double variance = 0;
  for (double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * gamma[i] + beta[i];
  }
  return y;
}

RowResult LayerReference(const Layer& layer, LayerPart part, Vector x, const Vector& attention) {
  if (part != LayerPart::kPreAttention) {
    x = Normalized(Sum(x, Product(layer.wo, Rounded(attention))), layer.gamma[1], layer.beta[1]);
    Vector hidden = Product(layer.w1, Rounded(x));
    for (size_t i = 0; i < hidden.size(); ++i) {
      const double h = hidden[i] + layer.b1[i];
      hidden[i] = 0.5 * h * std::erfc(-h / std::numbers::sqrt2);
    }
    Vector mlp = Product(layer.w2, Rounded(hidden));
    for (size_t i = 0; i < mlp.size(); ++i) mlp[i] += layer.b2[i];
    x = Normalized(Sum(x, mlp), layer.gamma[2], layer.beta[2]);
  }
  if (part == LayerPart::kPostAttention) return {x, {}};
  x = Normalized(Sum(x, Product(layer.feature, Rounded(x))), layer.gamma[0], layer.beta[0]);
  return {x, Product(layer.projection, Rounded(x))};
}

}  // namespace

Layer::Layer(const ModelShape& s)
    : feature(RandomLayerMatrix(s.width, s.width, 1)),
      projection(RandomLayerMatrix(s.qkv_width(), s.width, 2)),
      wo(RandomLayerMatrix(s.width, s.query_width(), 3)),
      w1(RandomLayerMatrix(s.hidden, s.width, 4)),
      w2(RandomLayerMatrix(s.width, s.hidden, 5)),
      b1(RandomTensor(s.hidden, 6)),
      b2(RandomTensor(s.width, 7)) {
  for (int i = 0; i < 3; ++i) {
    gamma.push_back(RandomTensor(s.width, 10 + i));
    beta.push_back(RandomTensor(s.width, 20 + i));
  }
}

namespace {

std::vector<float> RandomRows(int32_t width, float mean, float apart) {
  std::vector<float> x = RandomTensor(int64_t{LayerProblem::kRows} * width, 30);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] += mean - (i % width / 64 % 2 == 1 ? apart : 0.0f);
  }
  return x;
}

}  // namespace

LayerProblem::LayerProblem(const ModelShape& shape, float mean, float apart)
    : shape_(shape),
      layer_(shape),
      x_(RandomRows(shape.width, mean, apart)),
      context_(2 * ContextLayerSize(kEncodedRows, shape.kv_heads, shape.head_dim)),
      buffer_(2 * BufferLayerSize(kCapacity, 16, shape.kv_heads, shape.head_dim)),
      post_attention_tiles_(PackPostAttentionTiles(layer_.wo, layer_.w1, layer_.w2)),
      pre_attention_tiles_(PackPreAttentionTiles(layer_.feature, layer_.projection)),
      post_attention_wgmma_tiles_(
          PackWgmmaTiles(PackPostAttentionTiles(layer_.wo, layer_.w1, layer_.w2))),
      pre_attention_wgmma_tiles_(
          PackWgmmaTiles(PackPreAttentionTiles(layer_.feature, layer_.projection))),
      post_attention_column_tiles_(
          PackWgmmaColumnTiles(PackPostAttentionTiles(layer_.wo, layer_.w1, layer_.w2))),
      pre_attention_column_tiles_(
          PackWgmmaColumnTiles(PackPreAttentionTiles(layer_.feature, layer_.projection))),
      post_vectors_(PackPostAttentionVectors(layer_.gamma[1], layer_.beta[1], layer_.gamma[2],
                                             layer_.beta[2], layer_.b2, layer_.b1)),
      pre_vectors_(PackPreAttentionVectors(layer_.gamma[0], layer_.beta[0])) {
  UploadTiles({});
  MakeStates();
}

void LayerProblem::SetEncoding(const Encoding& encoding) {
  std::vector<uint16_t> context;
  for (const float x : RandomTensor(
           2 * ContextLayerSize(encoding.capacity, shape_.kv_heads, shape_.head_dim), 50)) {
    context.push_back(ToBf16(x));
  }
  context_ = DeviceArray<uint16_t>(context);
  UploadTiles(encoding);
}

void LayerProblem::UploadTiles(const Encoding& encoding) {
  tiles_ = DeviceTiles(
      {{.context = context_.data(),
        .context_rows = 64 + encoding.rows,
        .context_capacity = encoding.capacity,
        .groups = 4,
        .first_row = 64,
        .encode_first = encoding.first,
        .encode_rows = encoding.rows},
       {.buffer = buffer_.data(),
        .context_rows = kContextRows[1],
        .context_capacity = kContextRows[1],
        .groups = 2,
        .buffer_paths = 16,
        .buffer_capacity = kCapacity,
        .append_position = kPosition},
       {.context_rows = kContextRows[2], .context_capacity = kContextRows[2], .groups = 3},
       {.context_rows = kContextRows[3], .context_capacity = kContextRows[3], .groups = 0}});
}

bool LayerProblem::InUse(int row) const {
  const int groups[kTiles] = {4, 2, 3, 0};
  return row % 64 < 16 * groups[row / 64];
}

LayerProblem::Result LayerProblem::Run(LayerPart part, int block_rows, Stream stream, Form form,
                                       Attention attention) {
  const bool wgmma = form == Form::kWgmma;
  const bool tile = form == Form::kTile;
  const bool partials = attention == Attention::kPartials;
  const DeviceArray<float> x(x_);
  const DeviceArray<uint16_t> q(static_cast<size_t>(kRows) * shape_.query_width());
  const LayerParams params = {
      .tiles = tiles_.data(),
      .x = x.data(),
      .partial_o = partials ? partial_o_.data() : nullptr,
      .partial_ml = partials ? partial_ml_.data() : nullptr,
      .attended = partials ? nullptr : attended_.data(),
      .q = q.data(),
      .post_attention = {post_attention_tiles_.data(),
                         wgmma ? post_attention_wgmma_tiles_.data() : nullptr,
                         tile ? post_attention_column_tiles_.data() : nullptr,
                         post_vectors_.data()},
      .pre_attention = {pre_attention_tiles_.data(),
                        wgmma ? pre_attention_wgmma_tiles_.data() : nullptr,
                        tile ? pre_attention_column_tiles_.data() : nullptr, pre_vectors_.data()},
      .tile_count = kTiles,
      .shape = shape_,
      .kv_layer = kLayer,
      .split = KvSplit::kSplit,
      .epsilon = 1e-5f,
      .part = part};
  EXPECT_TRUE(ValidateLayer(params).ok()) << ValidateLayer(params);
  DeviceProperties device;
  ExpectSuccess(OpenDevice(&device), "opening the device");
  const int shared_bytes = device.shared_bytes_per_block;
  EXPECT_EQ(UsesWgmma(params, block_rows, shared_bytes), wgmma);
  EXPECT_EQ(UsesTileKernel(params, block_rows, shared_bytes), tile);
  ExpectSuccess(LaunchLayer(params, block_rows, shared_bytes, stream),
                "launching the layer kernel");
  Result result = {x.ToHost(stream), q.ToHost(stream), context_.ToHost(stream),
                   buffer_.ToHost(stream)};
  return result;
}

RowResult LayerProblem::Expected(LayerPart part, int row) const {
  const int64_t attention_width = shape_.query_width();
  const auto x = x_.begin() + int64_t{row} * shape_.width;
  const auto attention = attention_.begin() + row * attention_width;
  return LayerReference(layer_, part, Vector(x, x + shape_.width),
                        Vector(attention, attention + attention_width));
}

void LayerProblem::MakeStates() {
  const int64_t heads = static_cast<int64_t>(kRows) * shape_.heads;
  const int64_t num_splits = KvSplits(kLargestContext, kCapacity);
  std::vector<float> o = RandomTensor(num_splits * heads * shape_.head_dim, 40);
  const std::vector<float> random = RandomTensor(2 * num_splits * heads, 41);
  std::vector<float> state(num_splits * heads * 2);
  attention_.resize(heads * shape_.head_dim);
  for (int64_t at = 0; at < heads; ++at) {
    const int tile = static_cast<int>(at / shape_.heads / 64);
    double l = 0;
    Vector sum(shape_.head_dim);
    for (int64_t split = 0; split < num_splits; ++split) {
      float* s = state.data() + (split * heads + at) * 2;
      float* partial_o = o.data() + (split * heads + at) * shape_.head_dim;
      s[0] = 5 * random[2 * (split * heads + at)];
      s[1] = 1 + std::abs(random[2 * (split * heads + at) + 1]);
      const bool exists = split < KvSplits(kContextRows[tile], tile == 1 ? kCapacity : 0);
      const bool empty = kContextRows[tile] == 0 || (split == 3 && tile == 1);
      if (empty) s[0] = -INFINITY;  // no key at all
      if (empty) s[1] = 0;
      if (!exists) s[0] = s[1] = kNoPartial;
      const double scale = exists && !empty ? std::exp2(s[0]) : 0;
      if (scale > 0) l += scale * s[1];
      for (int d = 0; d < shape_.head_dim; ++d) {
        if (empty) partial_o[d] = 0;
        if (!exists) partial_o[d] = kNoPartial;
        if (scale > 0) sum[d] += scale * partial_o[d];
      }
    }
    for (int d = 0; d < shape_.head_dim; ++d) {
      attention_[at * shape_.head_dim + d] = l > 0 ? sum[d] / l : 0;
    }
  }
  partial_o_ = DeviceArray<float>(o);
  partial_ml_ = DeviceArray<float>(state);
  std::vector<uint16_t> attended;
  for (const double x : attention_) attended.push_back(ToBf16(static_cast<float>(x)));
  attended_ = DeviceArray<uint16_t>(attended);
}

}  // namespace chorale::kernels::cuda
