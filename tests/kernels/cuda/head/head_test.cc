// Embedding, head, draws and the counters of a decode.
#include "kernels/cuda/head/head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/embed/embed.h"
#include "kernels/cuda/head/unfused_head.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/mixture_head.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/precise_linear.h"
#include "kernels/ops/random.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The row in its tile of the token of a path's query row; the buffer token's is 8 rows below.
int TargetRow(int path) { return path / 8 * 16 + path % 8; }

class EmbedTest : public DeviceTest {};

TEST_F(EmbedTest, PathsGetTheirTargetsAndTokens) {
  constexpr int kWidth = 40;
  constexpr int kQueryRows = 6;
  constexpr int kPaths = 11;
  constexpr int kBufferPositions = 3;  // K: the token at position 4 wraps to 1
  const std::vector<float> encodings = RandomTensor(kQueryRows * kWidth, 1);
  const std::vector<float> offsets = RandomTensor((2 + kBufferPositions) * kWidth, 2);
  const std::vector<float> y_weight = RandomTensor(kWidth, 3);
  const std::vector<float> values = RandomTensor(kQueryRows * kPaths, 4);
  std::vector<int32_t> order;
  for (int i = 0; i < kPaths * kQueryRows; ++i) order.push_back(i * 5 / 3 % kQueryRows);
  const DeviceArray<float> d_encodings(encodings), d_offsets(offsets), d_y(y_weight), d_v(values);
  const DeviceArray<int32_t> d_order(order);
  const PathTile path = {.encodings = d_encodings.data(),
                         .order = d_order.data(),
                         .values = d_v.data(),
                         .paths = kPaths,
                         .query_rows = kQueryRows,
                         .position = 5,
                         .token_position = 4};
  PathTile given_order = path;
  given_order.order = nullptr;
  PathTile first = path;
  first.position = 0;
  first.token_position = -1;
  const DeviceArray<PathTile> paths(std::vector<PathTile>{path, given_order, first, path});
  const DeviceArray<Tile> tiles(
      std::vector<Tile>{{.groups = 2}, {.groups = 2}, {.groups = 2}, {.groups = 0}});
  const DeviceArray<float> x(4 * 64 * kWidth);
  const EmbedPathsParams params = {.tiles = tiles.data(),
                                   .paths = paths.data(),
                                   .offsets = d_offsets.data(),
                                   .y_weight = d_y.data(),
                                   .x = x.data(),
                                   .tile_count = 4,
                                   .width = kWidth,
                                   .buffer_positions = kBufferPositions};
  ASSERT_TRUE(ValidateEmbedPaths(params).ok());
  ExpectSuccess(LaunchEmbedPaths(params, stream_), "embedding");
  std::vector<float> expected(x.size(), kNan);
  for (int tile = 0; tile < 3; ++tile) {
    for (int p = 0; p < 16; ++p) {
      for (const bool token : {false, true}) {
        float* row = expected.data() + (tile * 64 + TargetRow(p) + (token ? 8 : 0)) * kWidth;
        const int position = tile == 2 ? (token ? -1 : 0) : (token ? 4 : 5);
        for (int c = 0; c < kWidth; ++c) {
          row[c] = 0;
          if (p >= kPaths || position < 0) continue;
          const int query_row = tile == 1 ? position : order[p * kQueryRows + position];
          row[c] = encodings[query_row * kWidth + c] + offsets[(token ? 2 + 1 : 0) * kWidth + c];
          if (token) row[c] += values[position * kPaths + p] * y_weight[c];
        }
      }
    }
  }
  EXPECT_THAT(x.ToHost(stream_), TensorNear(expected, Tolerance{1e-6, 1e-6}));
}

TEST_F(EmbedTest, RowsFillWholeTiles) {
  constexpr int kWidth = 24;
  constexpr int kRows = 70;
  const std::vector<float> encodings = RandomTensor(kRows * kWidth, 1);
  const std::vector<float> offset = RandomTensor(kWidth, 2);
  const std::vector<float> y_weight = RandomTensor(kWidth, 3);
  const std::vector<float> y = RandomTensor(kRows, 4);
  const DeviceArray<float> d_encodings(encodings), d_offset(offset), d_weight(y_weight), d_y(y);
  for (bool with_y : {false, true}) {
    const DeviceArray<float> x(2 * 64 * kWidth);
    const EmbedRowsParams params = {.encodings = d_encodings.data(),
                                    .offset = d_offset.data(),
                                    .y = with_y ? d_y.data() : nullptr,
                                    .y_weight = d_weight.data(),
                                    .x = x.data(),
                                    .rows = kRows,
                                    .width = kWidth};
    ASSERT_TRUE(ValidateEmbedRows(params).ok());
    ExpectSuccess(LaunchEmbedRows(params, stream_), "embedding");
    std::vector<float> expected(x.size(), 0.0f);
    for (int i = 0; i < kRows * kWidth; ++i) {
      expected[i] = encodings[i] + offset[i % kWidth];
      if (with_y) expected[i] += y[i / kWidth] * y_weight[i % kWidth];
    }
    EXPECT_THAT(x.ToHost(stream_), TensorNear(expected, Tolerance{1e-6, 1e-6}));
  }
}

constexpr ModelShape kSmallHead = {.width = 128, .hidden = 256, .components = 20};
constexpr ModelShape kOneComponent = {.width = 128, .hidden = 256, .components = 1};

// Random weights and rows, and their mixtures by the CPU's float64 references.
class HeadProblem {
 public:
  static constexpr int kTiles = 2;
  static constexpr int kRows = kTiles * 64;

  explicit HeadProblem(const ModelShape& s)
      : shape_(s),
        x_(RandomTensor(kRows * s.width, 1)),
        w1_(RandomTensor(s.hidden * s.width, 2, 1 / std::sqrt(static_cast<float>(s.width)))),
        w2_(RandomTensor(3 * s.components * s.hidden, 3,
                         2 / std::sqrt(static_cast<float>(s.hidden)))) {
    const auto keep = [&](int64_t n, uint32_t seed) {
      vectors_.push_back(RandomTensor(n, seed));
      on_device_.emplace_back(vectors_.back());
    };
    keep(s.width, 4);
    keep(s.width, 5);
    keep(s.hidden, 6);
    keep(3 * s.components, 7);
    for (uint32_t seed : {8, 9, 10}) keep(s.components, seed);
    on_device_.emplace_back(PackHeadMap({w1_, s.hidden, s.width}));
    on_device_.emplace_back(PackHeadMap({w2_, 3 * s.components, s.hidden}));
    device_x_ = DeviceArray<float>(x_);
    MakeReference();
  }

  HeadParams Params(const DeviceArray<Tile>& tiles) const {
    return {.tiles = tiles.data(),
            .x = device_x_.data(),
            .weights = {.gamma = on_device_[0].data(),
                        .beta = on_device_[1].data(),
                        .w1 = on_device_[7].data(),
                        .b1 = on_device_[2].data(),
                        .w2 = on_device_[8].data(),
                        .b2 = on_device_[3].data(),
                        .mean_bias = on_device_[4].data(),
                        .std_bias = on_device_[5].data(),
                        .weight_bias = on_device_[6].data()},
            .tile_count = kTiles,
            .shape = shape_,
            .epsilon = 1e-5f,
            .std_min = 0.01f,
            .std_max = 1.5f};
  }

  // The same head in its unfused form: W1 z is in memory, for all rows or the query rows.
  UnfusedHeadParams WideParams(const DeviceArray<Tile>& tiles, bool of_paths) {
    const int padded = (shape_.hidden + 7) / 8 * 8;
    std::vector<float> h;
    for (int row = 0; row < kRows; ++row) {
      if (of_paths && row % 16 >= 8) continue;
      h.insert(h.end(), hidden_.begin() + row * shape_.hidden,
               hidden_.begin() + (row + 1) * shape_.hidden);
      h.resize(h.size() + padded - shape_.hidden);
    }
    std::vector<float> b1 = vectors_[2];
    b1.resize(padded);
    Matrix w2 = {{}, 3 * shape_.components, padded};
    for (int o = 0; o < w2.out; ++o) {
      w2.values.insert(w2.values.end(), w2_.begin() + o * shape_.hidden,
                       w2_.begin() + (o + 1) * shape_.hidden);
      w2.values.resize((o + 1) * w2.in);
    }
    wide_.clear();
    for (const std::vector<float>& values : {h, b1, PackHeadMap(w2)}) wide_.emplace_back(values);
    HeadParams head = Params(tiles);
    head.x = nullptr;
    head.weights.w1 = nullptr;
    head.weights.b1 = wide_[1].data();
    head.weights.w2 = wide_[2].data();
    head.shape.hidden = padded;
    return {.head = head, .h = wide_[0].data()};
  }

  MixtureView Mixture(int row) const {
    const int m = shape_.components;
    return {mean_.data() + row * m, std_.data() + row * m, log_weight_.data() + row * m, m};
  }

 private:
  void MakeReference() {
    const ModelShape& s = shape_;
    std::vector<float> z(x_.size());
    reference::LayerNorm({.x = x_.data(),
                          .gamma = vectors_[0].data(),
                          .beta = vectors_[1].data(),
                          .y = z.data(),
                          .rows = kRows,
                          .width = s.width});
    std::vector<float> packed(PackedLinearSize(s.hidden, s.width));
    PackLinearWeight(w1_.data(), s.hidden, s.width, packed.data());
    std::vector<float> hidden(kRows * s.hidden);
    hidden_.resize(hidden.size());
    LinearParams w1 = {.x = z.data(),
                       .weight = packed.data(),
                       .y = hidden_.data(),
                       .rows = kRows,
                       .in = s.width,
                       .out = s.hidden,
                       .x_stride = s.width,
                       .y_stride = s.hidden};
    reference::Linear(w1);
    w1.bias = vectors_[2].data();
    w1.y = hidden.data();
    w1.activation = Activation::kGelu;
    reference::Linear(w1);
    const int outputs = 3 * s.components;
    packed.resize(PackedLinearSize(outputs, s.hidden));
    PackLinearWeight(w2_.data(), outputs, s.hidden, packed.data());
    std::vector<double> raw(kRows * outputs);
    reference::PreciseLinear({.x = hidden.data(),
                              .weight = packed.data(),
                              .bias = vectors_[3].data(),
                              .y = raw.data(),
                              .rows = kRows,
                              .in = s.hidden,
                              .out = outputs,
                              .x_stride = s.hidden,
                              .y_stride = outputs});
    for (std::vector<double>* v : {&mean_, &std_, &log_weight_}) v->resize(kRows * s.components);
    reference::MixtureHead({.raw = raw.data(),
                            .mean_bias = vectors_[4].data(),
                            .std_bias = vectors_[5].data(),
                            .weight_bias = vectors_[6].data(),
                            .mean = mean_.data(),
                            .std = std_.data(),
                            .log_weight = log_weight_.data(),
                            .rows = kRows,
                            .components = s.components,
                            .raw_stride = outputs,
                            .std_min = 0.01f,
                            .std_max = 1.5f});
  }

  const ModelShape shape_;
  const std::vector<float> x_, w1_, w2_;
  std::vector<std::vector<float>> vectors_;
  std::vector<DeviceArray<float>> on_device_;
  DeviceArray<float> device_x_;
  std::vector<float> hidden_;  // W1 z
  std::vector<DeviceArray<float>> wide_;
  std::vector<double> mean_, std_, log_weight_;
};

class HeadTest : public DeviceTest {
 protected:
  // Expects the mixtures of the first 80 rows of `problem`, the ones in use.
  static void ExpectMixtures(const HeadProblem& problem, int m, const std::vector<float>& actual) {
    std::vector<float> expected(actual.size(), kNan);
    for (int row = 0; row < 64 + 16; ++row) {
      const MixtureView mixture = problem.Mixture(row);
      for (int j = 0; j < m; ++j) {
        expected[row * 3 * m + j] = static_cast<float>(mixture.mean[j]);
        expected[row * 3 * m + m + j] = static_cast<float>(mixture.std[j]);
        expected[row * 3 * m + 2 * m + j] = static_cast<float>(mixture.log_weight[j]);
      }
    }
    EXPECT_THAT(actual, TensorNear(expected, Tolerance{2e-5, 1e-5}));
  }
};

TEST_F(HeadTest, MixturesOfEveryRow) {
  for (const ModelShape& shape :
       {kSmallHead, ModelShape{.width = 32, .hidden = 50, .components = 3},
        ModelShape{.width = 264, .hidden = 515, .components = 40}, kOneComponent,
        ModelShape{.width = 8, .hidden = 1100, .components = 70},
        ModelShape{.width = 37, .hidden = 5, .components = 33}}) {
    SCOPED_TRACE(testing::Message() << "M " << shape.components);
    const HeadProblem problem(shape);
    const DeviceArray<Tile> tiles(std::vector<Tile>{{.groups = 4}, {.groups = 1}});
    const int m = shape.components;
    const DeviceArray<float> mixtures(HeadProblem::kRows * 3 * m);
    HeadParams params = problem.Params(tiles);
    params.mixtures = mixtures.data();
    ASSERT_TRUE(ValidateHead(params).ok()) << ValidateHead(params);
    ExpectSuccess(LaunchHead(params, stream_), "launching the head");
    ExpectMixtures(problem, m, mixtures.ToHost(stream_));
  }
}

// With more hidden units than go through shared memory at a time, and fewer.
TEST_F(HeadTest, WideMixturesOfEveryRow) {
  for (const ModelShape& shape :
       {ModelShape{.width = 32, .hidden = 50, .components = 3},
        ModelShape{.width = 8, .hidden = 2'100, .components = 70},
        ModelShape{.width = 8, .hidden = 1'024, .components = kMostComponents},
        ModelShape{.width = 8, .hidden = 1'032, .components = 1}, kOneComponent}) {
    SCOPED_TRACE(testing::Message() << "M " << shape.components);
    HeadProblem problem(shape);
    const DeviceArray<Tile> tiles(std::vector<Tile>{{.groups = 4}, {.groups = 1}});
    const DeviceArray<float> mixtures(HeadProblem::kRows * 3 * shape.components);
    UnfusedHeadParams params = problem.WideParams(tiles, /*of_paths=*/false);
    params.head.mixtures = mixtures.data();
    ASSERT_TRUE(ValidateUnfusedHead(params).ok()) << ValidateUnfusedHead(params);
    ExpectSuccess(LaunchUnfusedHead(params, stream_), "launching the head");
    ExpectMixtures(problem, shape.components, mixtures.ToHost(stream_));
  }
}

// Draws and densities are the code of the other form; what is its own is whose rows they are of.
TEST_F(HeadTest, WideDensitiesOfPaths) {
  constexpr int kPaths = 19;
  HeadProblem problem({.width = 40, .hidden = 72, .components = 5});
  const std::vector<float> observed = RandomTensor(kPaths, 20);
  const DeviceArray<float> values(observed);
  const DeviceArray<double> densities(kPaths);
  const PathTile path = {.values = values.data(),
                         .emitted_densities = densities.data(),
                         .paths = kPaths,
                         .query_rows = 1};
  const DeviceArray<PathTile> paths(std::vector<PathTile>{{}, path});
  const DeviceArray<Tile> tiles(std::vector<Tile>{{.groups = 0}, {.groups = 3}});
  UnfusedHeadParams params = problem.WideParams(tiles, /*of_paths=*/true);
  params.head.paths = paths.data();
  ASSERT_TRUE(ValidateUnfusedHead(params).ok()) << ValidateUnfusedHead(params);
  ExpectSuccess(LaunchUnfusedHead(params, stream_), "launching the head");
  const std::vector<double> actual = densities.ToHost(stream_);
  for (int p = 0; p < kPaths; ++p) {
    const MixtureView mixture = problem.Mixture(64 + TargetRow(p));
    EXPECT_NEAR(actual[p], MixtureLogDensity(mixture, observed[p]), 2e-4) << p;
  }
}

TEST_F(HeadTest, DrawsAndDensitiesOfPaths) {
  constexpr int kPaths = 19;
  constexpr int kQueryRows = 4;
  constexpr int kPosition = 2;
  constexpr uint64_t kSeed = 0x123456789abcdef0;
  constexpr uint64_t kFirstPath = 0x1'0000'0005;
  for (const auto& [shape, draw] :
       {std::pair{kSmallHead, true}, std::pair{kSmallHead, false}, std::pair{kOneComponent, true},
        std::pair{ModelShape{.width = 40, .hidden = 70, .components = 75}, true},
        std::pair{ModelShape{.width = 40, .hidden = 70, .components = 75}, false}}) {
    SCOPED_TRACE(testing::Message() << (draw ? "drawn" : "scored") << ", M " << shape.components);
    const HeadProblem problem(shape);
    const std::vector<float> observed = RandomTensor(kQueryRows * kPaths, 20);
    const DeviceArray<float> values =
        draw ? DeviceArray<float>(observed.size()) : DeviceArray<float>(observed);
    // Emits positions 1, 2 and 3.
    constexpr int kFirstEmitted = 1;
    constexpr int kEmitted = (kQueryRows - kFirstEmitted) * kPaths;
    const DeviceArray<float> emitted(kEmitted);
    const DeviceArray<double> densities(kEmitted);
    const DeviceArray<float> mixtures(kEmitted * 3 * shape.components);
    const PathTile path = {.values = values.data(),
                           .emitted_values = emitted.data(),
                           .emitted_densities = densities.data(),
                           .emitted_mixtures = mixtures.data(),
                           .seed = kSeed,
                           .first_path = kFirstPath,
                           .paths = kPaths,
                           .query_rows = kQueryRows,
                           .position = kPosition,
                           .first_emitted = kFirstEmitted,
                           .draw = draw ? 1 : 0};
    const DeviceArray<PathTile> paths(std::vector<PathTile>{path, {}});
    const DeviceArray<Tile> tiles(std::vector<Tile>{{.groups = 3}, {.groups = 0}});
    HeadParams params = problem.Params(tiles);
    params.paths = paths.data();
    ExpectSuccess(LaunchHead(params, stream_), "launching the head");
    const std::vector<float> actual = values.ToHost(stream_);
    const std::vector<float> actual_emitted = emitted.ToHost(stream_);
    const std::vector<double> actual_densities = densities.ToHost(stream_);
    const std::vector<float> actual_mixtures = mixtures.ToHost(stream_);
    for (int p = 0; p < kPaths; ++p) {
      const MixtureView mixture = problem.Mixture(TargetRow(p));
      const StepDraw step = DrawStep(kSeed, kFirstPath + p, kPosition);
      const int at = kPosition * kPaths + p;
      if (draw) {
        EXPECT_NEAR(actual[at], MixtureDraw(mixture, step.uniform, step.normal), 3e-5) << p;
      } else {
        EXPECT_EQ(actual[at], observed[at]);
      }
      const int emitted_at = at - kFirstEmitted * kPaths;
      EXPECT_EQ(actual_emitted[emitted_at], actual[at]);
      EXPECT_NEAR(actual_densities[emitted_at], MixtureLogDensity(mixture, actual[at]), 2e-4) << p;
      EXPECT_NEAR(actual_mixtures[emitted_at * 3 * shape.components + shape.components],
                  mixture.std[0], 2e-5);
    }
    for (int i = 0; i < kEmitted; ++i) {
      if (i / kPaths + kFirstEmitted == kPosition) continue;
      EXPECT_TRUE(std::isnan(actual_densities[i])) << "another position was written";
    }
  }
}

TEST_F(HeadTest, AdvancePositionCountsAndStops) {
  // A tile at the first position, one whose last step this is, one at its last row, an idle one.
  const DeviceArray<Tile> tiles(
      std::vector<Tile>{{.groups = 2}, {.groups = 3}, {.groups = 1}, {.groups = 0}});
  const DeviceArray<PathTile> paths(
      std::vector<PathTile>{{.query_rows = 9, .steps_left = 5},
                            {.query_rows = 9, .position = 4, .token_position = 3, .steps_left = 1},
                            {.query_rows = 9, .position = 8, .token_position = 7, .steps_left = 5},
                            {.query_rows = 9, .position = 1, .steps_left = 5}});
  ExpectSuccess(LaunchAdvancePosition({tiles.data(), paths.data(), 4}, stream_), "counting");
  const std::vector<Tile> after = tiles.ToHost(stream_);
  const std::vector<PathTile> paths_after = paths.ToHost(stream_);
  EXPECT_EQ(after[0].groups, 2);
  EXPECT_EQ(after[0].append_position, 0);
  EXPECT_EQ(after[0].visible_query, 1);
  EXPECT_EQ(after[0].visible_buffer, 1);
  EXPECT_EQ(paths_after[0].position, 1);
  EXPECT_EQ(paths_after[0].token_position, 0);
  EXPECT_EQ(paths_after[0].steps_left, 4);
  EXPECT_EQ(after[1].groups, 0);
  EXPECT_EQ(paths_after[1].position, 5);
  EXPECT_EQ(after[1].append_position, 4) << "where the next advance begins";
  EXPECT_EQ(after[2].groups, 0);
  EXPECT_EQ(paths_after[2].position, 9);
  EXPECT_EQ(paths_after[3].position, 1) << "an idle tile stays as it is";
}

TEST(ValidateHeadTest, NamesTheField) {
  EXPECT_THAT(std::string(ValidateUnfusedHead({}).message()), testing::HasSubstr("tiles is null"));
  EXPECT_THAT(std::string(ValidateHead({}).message()), testing::HasSubstr("tiles is null"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
