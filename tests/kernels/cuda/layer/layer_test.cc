// The layer kernels against their definition in float64, which rounds the same numbers to bf16:
// weights, and what they are multiplied with.
#include "kernels/cuda/layer/layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "kernels/cuda/layer/pack_weights.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

using Vector = std::vector<double>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// A sum rounded to bf16 in the other direction than the reference's is off by 2^-8 of itself; later
// results move by that times a weight, and several such errors add up.
constexpr Tolerance kRounding{1.2e-2, 8e-3};

struct LayerShape {
  int width = 128;
  int heads = 4;
  int kv_heads = 4;
  int head_dim = 32;
  int hidden = 256;
};

Matrix RandomMatrix(int64_t out, int64_t in, uint32_t seed) {
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

Vector LayerNorm(const Vector& x, const std::vector<float>& gamma, const std::vector<float>& beta) {
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

struct Layer {
  explicit Layer(const LayerShape& s)
      : feature(RandomMatrix(s.width, s.width, 1)),
        projection(RandomMatrix((s.heads + 2 * s.kv_heads) * s.head_dim, s.width, 2)),
        wo(RandomMatrix(s.width, s.heads * s.head_dim, 3)),
        w1(RandomMatrix(s.hidden, s.width, 4)),
        w2(RandomMatrix(s.width, s.hidden, 5)),
        b1(RandomTensor(s.hidden, 6)),
        b2(RandomTensor(s.width, 7)) {
    for (int i = 0; i < 3; ++i) {
      gamma.push_back(RandomTensor(s.width, 10 + i));
      beta.push_back(RandomTensor(s.width, 20 + i));
    }
  }

  Matrix feature, projection, wo, w1, w2;
  std::vector<float> b1, b2;
  std::vector<std::vector<float>> gamma, beta;
};

struct RowResult {
  Vector x;
  Vector qkv;  // [q | K | V]
};

RowResult Reference(const Layer& layer, LayerPart part, Vector x, const Vector& attention) {
  if (part != LayerPart::kPreAttention) {
    x = LayerNorm(Sum(x, Product(layer.wo, Rounded(attention))), layer.gamma[1], layer.beta[1]);
    Vector hidden = Product(layer.w1, Rounded(x));
    for (size_t i = 0; i < hidden.size(); ++i) {
      const double h = hidden[i] + layer.b1[i];
      hidden[i] = 0.5 * h * std::erfc(-h / std::numbers::sqrt2);
    }
    Vector mlp = Product(layer.w2, Rounded(hidden));
    for (size_t i = 0; i < mlp.size(); ++i) mlp[i] += layer.b2[i];
    x = LayerNorm(Sum(x, mlp), layer.gamma[2], layer.beta[2]);
  }
  if (part == LayerPart::kPostAttention) return {x, {}};
  x = LayerNorm(Sum(x, Product(layer.feature, Rounded(x))), layer.gamma[0], layer.beta[0]);
  return {x, Product(layer.projection, Rounded(x))};
}

// Four tiles: one that encodes 50 rows of a context, paths in two groups, targets to predict, and
// one that is idle. Contexts have different numbers of splits, some without a key, and one has no
// rows.
class LayerProblem {
 public:
  static constexpr int kTiles = 4;
  static constexpr int kRows = kTiles * 64;
  static constexpr int kLayer = 1;
  static constexpr int kEncodedRows = 114;  // of which the tile has the last 50
  static constexpr int kLargestContext = 1250;
  static constexpr int kContextRows[kTiles] = {kEncodedRows, kLargestContext, 0, 10};
  static constexpr int kCapacity = 5;
  static constexpr int kPosition = 3;

  explicit LayerProblem(const LayerShape& shape)
      : shape_(shape),
        layer_(shape),
        x_(RandomTensor(kRows * shape.width, 30)),
        context_(2 * ContextLayerSize(kEncodedRows, shape.kv_heads, shape.head_dim)),
        buffer_(2 * BufferLayerSize(kCapacity, 16, shape.kv_heads, shape.head_dim)),
        post_attention_tiles_(PackPostAttentionTiles(layer_.wo, layer_.w1, layer_.w2)),
        pre_attention_tiles_(PackPreAttentionTiles(layer_.feature, layer_.projection)),
        post_attention_wgmma_tiles_(
            PackWgmmaTiles(PackPostAttentionTiles(layer_.wo, layer_.w1, layer_.w2))),
        pre_attention_wgmma_tiles_(
            PackWgmmaTiles(PackPreAttentionTiles(layer_.feature, layer_.projection))),
        post_vectors_(PackPostAttentionVectors(layer_.gamma[1], layer_.beta[1], layer_.gamma[2],
                                               layer_.beta[2], layer_.b2, layer_.b1)),
        pre_vectors_(PackPreAttentionVectors(layer_.gamma[0], layer_.beta[0])) {
    tiles_ = DeviceArray<Tile>(std::vector<Tile>{{.context = context_.data(),
                                                  .context_rows = kEncodedRows,
                                                  .groups = 4,
                                                  .first_row = 64,
                                                  .encode_rows = 50},
                                                 {.buffer = buffer_.data(),
                                                  .context_rows = kContextRows[1],
                                                  .groups = 2,
                                                  .buffer_paths = 16,
                                                  .buffer_capacity = kCapacity,
                                                  .append_position = kPosition},
                                                 {.context_rows = kContextRows[2], .groups = 3},
                                                 {.context_rows = kContextRows[3], .groups = 0}});
    MakeStates();
  }

  bool InUse(int row) const {
    const int groups[kTiles] = {4, 2, 3, 0};
    return row % 64 < 16 * groups[row / 64];
  }

  enum class Form { kMma, kWgmma };

  struct Result {
    std::vector<float> x;     // [kRows, D]
    std::vector<uint16_t> q;  // [kRows, H Dh]
    std::vector<uint16_t> context;
    std::vector<uint16_t> buffer;

    bool operator==(const Result&) const = default;
  };

  Result Run(LayerPart part, int block_rows, Stream stream, Form form = Form::kMma) {
    const bool wgmma = form == Form::kWgmma;
    const DeviceArray<float> x(x_);
    const DeviceArray<uint16_t> q(static_cast<size_t>(kRows) * shape_.heads * shape_.head_dim);
    const LayerParams params = {
        .tiles = tiles_.data(),
        .x = x.data(),
        .partial_o = partial_o_.data(),
        .partial_ml = partial_ml_.data(),
        .q = q.data(),
        .post_attention = {post_attention_tiles_.data(),
                           wgmma ? post_attention_wgmma_tiles_.data() : nullptr,
                           post_vectors_.data()},
        .pre_attention = {pre_attention_tiles_.data(),
                          wgmma ? pre_attention_wgmma_tiles_.data() : nullptr, pre_vectors_.data()},
        .tile_count = kTiles,
        .width = shape_.width,
        .heads = shape_.heads,
        .kv_heads = shape_.kv_heads,
        .head_dim = shape_.head_dim,
        .hidden = shape_.hidden,
        .kv_layer = kLayer,
        .split = KvSplit::kSplit,
        .epsilon = 1e-5f,
        .part = part};
    EXPECT_TRUE(ValidateLayer(params).ok()) << ValidateLayer(params);
    DeviceProperties device;
    ExpectSuccess(OpenDevice(&device), "opening the device");
    const int shared_bytes = device.shared_bytes_per_block;
    EXPECT_EQ(UsesWgmma(params, block_rows, shared_bytes), wgmma);
    ExpectSuccess(LaunchLayer(params, block_rows, shared_bytes, stream),
                  "launching the layer kernel");
    Result result = {x.ToHost(stream), q.ToHost(stream), context_.ToHost(stream),
                     buffer_.ToHost(stream)};
    return result;
  }

  RowResult Expected(LayerPart part, int row) const {
    const auto x = x_.begin() + row * shape_.width;
    const auto attention = attention_.begin() + row * shape_.heads * shape_.head_dim;
    return Reference(layer_, part, Vector(x, x + shape_.width),
                     Vector(attention, attention + shape_.heads * shape_.head_dim));
  }

  const LayerShape& shape() const { return shape_; }
  const std::vector<float>& x() const { return x_; }

 private:
  // Random partials of every tile's splits, and the attention that they combine to.
  void MakeStates() {
    const int64_t heads = static_cast<int64_t>(kRows) * shape_.heads;
    const int64_t num_splits = ContextSplits(kLargestContext);
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
        const bool exists = split < ContextSplits(kContextRows[tile]);
        const bool empty = kContextRows[tile] == 0 || (split == 3 && tile == 1);
        if (empty) s[0] = -INFINITY;  // no key at all
        if (empty) s[1] = 0;
        if (!exists) s[0] = s[1] = kNan;
        const double scale = exists && !empty ? std::exp2(s[0]) : 0;
        if (scale > 0) l += scale * s[1];
        for (int d = 0; d < shape_.head_dim; ++d) {
          if (empty) partial_o[d] = 0;
          if (!exists) partial_o[d] = kNan;
          if (scale > 0) sum[d] += scale * partial_o[d];
        }
      }
      for (int d = 0; d < shape_.head_dim; ++d) {
        attention_[at * shape_.head_dim + d] = l > 0 ? sum[d] / l : 0;
      }
    }
    partial_o_ = DeviceArray<float>(o);
    partial_ml_ = DeviceArray<float>(state);
  }

  const LayerShape shape_;
  const Layer layer_;
  const std::vector<float> x_;
  Vector attention_;  // [kRows, H Dh]

  DeviceArray<Tile> tiles_;
  DeviceArray<float> partial_o_, partial_ml_;
  DeviceArray<uint16_t> context_, buffer_;
  DeviceArray<uint16_t> post_attention_tiles_, pre_attention_tiles_;
  DeviceArray<uint16_t> post_attention_wgmma_tiles_, pre_attention_wgmma_tiles_;
  DeviceArray<float> post_vectors_, pre_vectors_;
};

class LayerTest : public DeviceTest {
 protected:
  static std::vector<float> Floats(const Vector& values) {
    return std::vector<float>(values.begin(), values.end());
  }
  static std::vector<float> FromBits(const uint16_t* bits, int64_t n) {
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(FromBf16(bits[i]));
    return values;
  }

  // Compares every row_step-th row: with 7, still one of every lane.
  void ExpectAgreesWithReference(const LayerShape& shape, LayerPart part, int row_step = 1) {
    LayerProblem problem(shape);
    const LayerProblem::Result result = problem.Run(part, 16, stream_);
    const int64_t queries = shape.heads * shape.head_dim;
    for (int row = 0; row < LayerProblem::kRows; row += row_step) {
      SCOPED_TRACE(testing::Message() << "row " << row);
      const auto x = result.x.begin() + row * shape.width;
      const std::vector<float> actual(x, x + shape.width);
      if (!problem.InUse(row)) {
        const auto before = problem.x().begin() + row * shape.width;
        EXPECT_THAT(actual, TensorBitsEqual(std::vector<float>(before, before + shape.width)));
        EXPECT_EQ(result.q[row * queries], 0xffff);
        continue;
      }
      const RowResult expected = problem.Expected(part, row);
      ASSERT_THAT(actual, TensorNear(Floats(expected.x), kRounding));
      if (part == LayerPart::kPostAttention) continue;
      const Vector& qkv = expected.qkv;
      ASSERT_THAT(FromBits(result.q.data() + row * queries, queries),
                  TensorNear(Floats(Vector(qkv.begin(), qkv.begin() + queries)), kRounding));
      ExpectKeysAndValues(result, shape, row, qkv);
    }
  }

  // K and V of a row are where the row's tile says.
  void ExpectKeysAndValues(const LayerProblem::Result& result, const LayerShape& shape, int row,
                           const Vector& qkv) {
    const int64_t kv_width = shape.kv_heads * shape.head_dim;
    std::vector<float> expected, actual;
    for (int64_t i = 0; i < kv_width; ++i) {
      const int head = static_cast<int>(i / shape.head_dim);
      const int d = static_cast<int>(i % shape.head_dim);
      const double k = qkv[shape.heads * shape.head_dim + i];
      const double v = qkv[shape.heads * shape.head_dim + kv_width + i];
      const int path = row % 64 / 16 * 8 + row % 8;
      if (row < 64) {
        const int64_t key_blocks = ContextKeyBlocks(LayerProblem::kEncodedRows);
        const uint16_t* key_block =
            result.context.data() +
            LayerProblem::kLayer *
                ContextLayerSize(LayerProblem::kEncodedRows, shape.kv_heads, shape.head_dim) +
            (head * key_blocks + 1) * KeyBlockSize(shape.head_dim);
        actual.push_back(FromBf16(key_block[KeyBlockKeyAt(row, d, shape.head_dim)]));
        actual.push_back(FromBf16(key_block[KeyBlockValueAt(row, d, shape.head_dim)]));
        expected.push_back(static_cast<float>(row < 50 ? k : 0));
        expected.push_back(static_cast<float>(row < 50 ? v : 0));
      } else if (row < 128 && row % 16 >= 8 && path < 16) {
        const uint16_t* key =
            result.buffer.data() +
            LayerProblem::kLayer *
                BufferLayerSize(LayerProblem::kCapacity, 16, shape.kv_heads, shape.head_dim) +
            BufferKeyAt(head, LayerProblem::kPosition, path, LayerProblem::kCapacity, 16,
                        shape.head_dim);
        actual.push_back(FromBf16(key[d]));
        actual.push_back(FromBf16(key[16 * shape.head_dim + BufferValueColumn(d, shape.head_dim)]));
        expected.push_back(static_cast<float>(k));
        expected.push_back(static_cast<float>(v));
      }
    }
    ASSERT_THAT(actual, TensorNear(expected, kRounding));
  }
};

TEST_F(LayerTest, EveryPart) {
  for (LayerPart part :
       {LayerPart::kPreAttention, LayerPart::kPostAttention, LayerPart::kPostThenPreAttention}) {
    SCOPED_TRACE(static_cast<int>(part));
    ExpectAgreesWithReference({}, part);
  }
}

TEST_F(LayerTest, ShapesOfOtherModels) {
  const std::vector<LayerShape> shapes = {
      {.width = 32, .heads = 4, .kv_heads = 2, .head_dim = 16, .hidden = 48},
      {.width = 256, .heads = 8, .kv_heads = 8, .head_dim = 32, .hidden = 1024},
      {.width = 264, .heads = 3, .kv_heads = 1, .head_dim = 128, .hidden = 200},
      {.width = 136, .heads = 17, .kv_heads = 1, .head_dim = 16, .hidden = 129},
      {.width = 512, .heads = 8, .kv_heads = 2, .head_dim = 64, .hidden = 64}};
  for (const LayerShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << "width " << shape.width);
    ExpectAgreesWithReference(shape, LayerPart::kPostThenPreAttention, 7);
  }
}

TEST_F(LayerTest, TouchesNothingElse) {
  LayerProblem problem({});
  const LayerProblem::Result result = problem.Run(LayerPart::kPostThenPreAttention, 8, stream_);
  const int64_t written_context = 2LL * 64 * 4 * 32;  // K and V of 64 rows
  const int64_t written_buffer = 2LL * 16 * 4 * 32;   // of one position of 16 paths
  const auto written = [](const std::vector<uint16_t>& bits) {
    return static_cast<int64_t>(bits.size()) - std::count(bits.begin(), bits.end(), 0xffff);
  };
  EXPECT_EQ(written(result.context), written_context);
  EXPECT_EQ(written(result.buffer), written_buffer);
}

// However many rows a block takes, a row's bits are the same.
TEST_F(LayerTest, AnyBlock) {
  for (const LayerShape& shape : {LayerShape{}, LayerShape{.width = 256, .heads = 8, .hidden = 300},
                                  LayerShape{.width = 384, .heads = 12, .kv_heads = 2}}) {
    LayerProblem problem(shape);
    const LayerProblem::Result expected =
        problem.Run(LayerPart::kPostThenPreAttention, 16, stream_);
    for (const int block_rows : {8, 32, 64}) {
      if (block_rows == 64 && shape.width > 256) continue;  // more than the shared memory
      SCOPED_TRACE(testing::Message() << block_rows << " rows");
      EXPECT_TRUE(problem.Run(LayerPart::kPostThenPreAttention, block_rows, stream_) == expected);
    }
  }
}

// Nor does wgmma change a bit.
TEST_F(LayerTest, Wgmma) {
  if (properties_.compute_major != kWgmmaComputeMajor) {
    GTEST_SKIP() << "needs compute capability " << kWgmmaComputeMajor << ".0";
  }
  for (const LayerShape& shape :
       {LayerShape{}, LayerShape{.width = 256, .heads = 8, .hidden = 300},
        LayerShape{.width = 384, .heads = 12, .kv_heads = 2},
        LayerShape{.width = 32, .heads = 4, .kv_heads = 2, .head_dim = 16, .hidden = 48},
        LayerShape{.width = 512, .heads = 4, .kv_heads = 1, .head_dim = 128, .hidden = 64}}) {
    LayerProblem problem(shape);
    for (LayerPart part :
         {LayerPart::kPreAttention, LayerPart::kPostAttention, LayerPart::kPostThenPreAttention}) {
      const LayerProblem::Result expected = problem.Run(part, 16, stream_);
      for (const int block_rows : {16, 32, 64}) {
        if (block_rows == 64 && shape.width > 128) continue;  // more than the shared memory
        SCOPED_TRACE(testing::Message() << shape.width << ", " << block_rows << " rows");
        EXPECT_TRUE(problem.Run(part, block_rows, stream_, LayerProblem::Form::kWgmma) == expected);
      }
    }
  }
}

TEST(ValidateLayerTest, NamesTheField) {
  LayerParams p;
  EXPECT_THAT(std::string(ValidateLayer(p).message()), testing::HasSubstr("tiles is null"));
  Tile tile;
  float x = 0;
  uint16_t bits = 0;
  p = {.tiles = &tile,
       .x = &x,
       .q = &bits,
       .post_attention = {},
       .pre_attention = {&bits, nullptr, &x},
       .tile_count = 1,
       .width = 128,
       .heads = 4,
       .kv_heads = 4,
       .head_dim = 32,
       .hidden = 256,
       .epsilon = 1e-5f,
       .part = LayerPart::kPreAttention};
  EXPECT_TRUE(ValidateLayer(p).ok()) << ValidateLayer(p);
  p.part = LayerPart::kPostAttention;
  EXPECT_THAT(std::string(ValidateLayer(p).message()), testing::HasSubstr("partial_o is null"));
  p.part = LayerPart::kPreAttention;
  p.width = 520;
  EXPECT_THAT(std::string(ValidateLayer(p).message()), testing::HasSubstr("width"));
}

LayerParams ShapeOf(int tiles, const LayerShape& shape) {
  return {.post_attention = {},
          .pre_attention = {},
          .tile_count = tiles,
          .width = shape.width,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .hidden = shape.hidden};
}

TEST(ChooseBlockRowsTest, TakesMoreRowsWhenThereAreMore) {
  const auto rows = [](int tiles, const LayerShape& shape) {
    return *ChooseBlockRows(ShapeOf(tiles, shape), 132, 227 << 10);
  };
  const LayerShape largest = {.width = 512, .heads = 16, .kv_heads = 16, .hidden = 2048};
  EXPECT_EQ(rows(2, {}), 8);
  EXPECT_EQ(rows(16, {}), 16);
  EXPECT_EQ(rows(50, {}), 32);
  EXPECT_EQ(rows(128, {}), 64);
  EXPECT_EQ(rows(128, largest), 16) << "shared memory";
  const uint16_t wgmma_tiles = 0;
  LayerParams few = ShapeOf(2, {});
  few.post_attention.wgmma_tiles = few.pre_attention.wgmma_tiles = &wgmma_tiles;
  EXPECT_EQ(*ChooseBlockRows(few, 132, 227 << 10), 16) << "wgmma";
}

TEST(ChooseBlockRowsTest, StaysWithinSharedMemory) {
  const LayerShape largest = {.width = 512, .heads = 16, .kv_heads = 16, .hidden = 2048};
  for (const LayerShape& shape :
       {LayerShape{}, LayerShape{.width = 256, .hidden = 1024}, largest}) {
    for (int tiles : {1, 50, 200}) {
      const LayerParams params = ShapeOf(tiles, shape);
      for (int shared_bytes : {163 << 10, 227 << 10}) {
        const absl::StatusOr<int> block_rows = ChooseBlockRows(params, 132, shared_bytes);
        ASSERT_TRUE(block_rows.ok()) << block_rows.status();
        EXPECT_LE(LayerSmemBytes(params, *block_rows), shared_bytes);
      }
    }
  }
}

TEST(ChooseBlockRowsTest, RefusesWithTheNumbers) {
  const LayerParams params = ShapeOf(1, {});
  const int needed = LayerSmemBytes(params, 8);
  EXPECT_TRUE(ChooseBlockRows(params, 132, needed).ok());
  const absl::Status status = ChooseBlockRows(params, 132, needed - 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(std::to_string(needed)));
}

}  // namespace
}  // namespace chorale::kernels::cuda
