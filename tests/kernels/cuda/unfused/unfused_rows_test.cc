// The kernels between the GEMMs of the unfused form, against their definitions.
#include "kernels/cuda/unfused/unfused_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/model_shape.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/device_tiles.h"
#include "tests/kernels/cuda/tile_problem.h"
#include "tests/kernels/cuda/tile_rows.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

constexpr float kEpsilon = 1e-5f;

std::vector<float> FromBits(const std::vector<uint16_t>& bits) {
  std::vector<float> values(bits.size());
  std::transform(bits.begin(), bits.end(), values.begin(), FromBf16);
  return values;
}

// Layer norm of one row in float64, of x + bias.
std::vector<float> Normalized(const float* x, const float* bias, const std::vector<float>& gamma,
                              const std::vector<float>& beta) {
  const size_t width = gamma.size();
  std::vector<double> row(x, x + width);
  for (size_t i = 0; i < width && bias != nullptr; ++i) row[i] += bias[i];
  double mean = 0;
  for (const double v : row) mean += v / static_cast<double>(width);
  double variance = 0;
  for (const double v : row) variance += (v - mean) * (v - mean) / static_cast<double>(width);
  std::vector<float> normalized(width);
  for (size_t i = 0; i < width; ++i) {
    normalized[i] =
        static_cast<float>((row[i] - mean) / std::sqrt(variance + kEpsilon) * gamma[i] + beta[i]);
  }
  return normalized;
}

class UnfusedRowsTest : public DeviceTest {};

// Every variant of the kernel, and widths that do not fill a warp's registers.
TEST_F(UnfusedRowsTest, NormalizesRows) {
  constexpr int kRows = 11;
  for (const int width : {8, 40, 520, 768, 1'000, 2'048}) {
    SCOPED_TRACE(testing::Message() << "width " << width);
    const std::vector<float> gamma = RandomTensor(width, 2);
    const std::vector<float> beta = RandomTensor(width, 3);
    const std::vector<float> bias = RandomTensor(width, 4);
    std::vector<float> x = RandomTensor(kRows * width, 1);
    for (int i = 0; i < width; ++i) x[i] += 100;  // a mean that is large beside the deviation
    const DeviceArray<float> d_gamma(gamma), d_beta(beta), d_bias(bias);
    for (const bool with_bias : {false, true}) {
      const DeviceArray<float> d_x(x);
      const DeviceArray<uint16_t> z(x.size());
      const NormalizeRowsParams params = {.x = d_x.data(),
                                          .z = z.data(),
                                          .bias = with_bias ? d_bias.data() : nullptr,
                                          .gamma = d_gamma.data(),
                                          .beta = d_beta.data(),
                                          .rows = kRows,
                                          .width = width,
                                          .epsilon = kEpsilon};
      ASSERT_TRUE(ValidateNormalizeRows(params).ok()) << ValidateNormalizeRows(params);
      ExpectSuccess(LaunchNormalizeRows(params, stream_), "normalising");
      std::vector<float> expected;
      for (int row = 0; row < kRows; ++row) {
        const std::vector<float> one =
            Normalized(x.data() + row * width, with_bias ? bias.data() : nullptr, gamma, beta);
        expected.insert(expected.end(), one.begin(), one.end());
      }
      const std::vector<float> actual = d_x.ToHost(stream_);
      EXPECT_THAT(actual, TensorNear(expected, Tolerance{1e-4, 1e-5}));
      std::vector<float> rounded(actual.size());
      std::transform(actual.begin(), actual.end(), rounded.begin(),
                     [](float v) { return FromBf16(ToBf16(v)); });
      EXPECT_THAT(FromBits(z.ToHost(stream_)), TensorBitsEqual(rounded));
    }
  }
}

TEST_F(UnfusedRowsTest, WithoutANormRowsAreRoundedAndStay) {
  const std::vector<float> x = RandomTensor(3 * 24, 1);
  const DeviceArray<float> d_x(x);
  const DeviceArray<uint16_t> z(x.size());
  ExpectSuccess(
      LaunchNormalizeRows({.x = d_x.data(), .z = z.data(), .rows = 3, .width = 24}, stream_),
      "rounding");
  EXPECT_EQ(d_x.ToHost(stream_), x);
  std::vector<uint16_t> rounded(x.size());
  std::transform(x.begin(), x.end(), rounded.begin(), ToBf16);
  EXPECT_EQ(z.ToHost(stream_), rounded);
}

// Three parts that give a row back to 2^-16, in the order of the tile's rows or of its query rows.
TEST_F(UnfusedRowsTest, HeadPartsAreTheNormalizedRowsThatHaveAHead) {
  constexpr int kTiles = 2;
  constexpr int kWidth = 136;
  const std::vector<float> x = RandomTensor(kTiles * 64 * kWidth, 1);
  const std::vector<float> gamma = RandomTensor(kWidth, 2);
  const std::vector<float> beta = RandomTensor(kWidth, 3);
  const DeviceArray<float> d_x(x), d_gamma(gamma), d_beta(beta);
  for (const bool of_paths : {false, true}) {
    const int rows = kTiles * (of_paths ? 32 : 64);
    const DeviceArray<uint16_t> d_parts(static_cast<size_t>(rows) * 3 * kWidth);
    const HeadPartsParams params = {.x = d_x.data(),
                                    .parts = d_parts.data(),
                                    .gamma = d_gamma.data(),
                                    .beta = d_beta.data(),
                                    .tile_count = kTiles,
                                    .of_paths = of_paths,
                                    .width = kWidth,
                                    .epsilon = kEpsilon};
    ASSERT_TRUE(ValidateHeadParts(params).ok()) << ValidateHeadParts(params);
    ExpectSuccess(LaunchHeadParts(params, stream_), "splitting");
    const std::vector<float> parts = FromBits(d_parts.ToHost(stream_));
    for (int row = 0; row < rows; ++row) {
      const int from = of_paths ? TargetRow(row) : row;
      const std::vector<float> expected =
          Normalized(x.data() + from * kWidth, nullptr, gamma, beta);
      const float* const part = parts.data() + row * 3 * kWidth;
      std::vector<float> sum(kWidth);
      for (int i = 0; i < kWidth; ++i) {
        sum[i] = part[i] + part[kWidth + i];
        EXPECT_EQ(part[i], part[2 * kWidth + i]);
      }
      ASSERT_THAT(sum, TensorNear(expected, Tolerance{2e-5, 2e-5})) << row;
    }
  }
}

TEST_F(UnfusedRowsTest, Gelu) {
  constexpr int kRows = 5;
  constexpr int kWidth = 1'032;
  std::vector<uint16_t> h;
  for (const float v : RandomTensor(kRows * kWidth, 1, 3)) h.push_back(ToBf16(v));
  const std::vector<float> b1 = RandomTensor(kWidth, 2);
  const DeviceArray<uint16_t> hidden(h);
  const DeviceArray<float> d_b1(b1);
  const GeluRowsParams params = {
      .hidden = hidden.data(), .b1 = d_b1.data(), .rows = kRows, .width = kWidth};
  ASSERT_TRUE(ValidateGeluRows(params).ok()) << ValidateGeluRows(params);
  ExpectSuccess(LaunchGeluRows(params, stream_), "activating");
  std::vector<float> expected(h.size());
  for (size_t i = 0; i < h.size(); ++i) {
    const double v = static_cast<double>(FromBf16(h[i])) + b1[i % kWidth];
    expected[i] = static_cast<float>(0.5 * v * std::erfc(-v / std::numbers::sqrt2));
  }
  EXPECT_THAT(FromBits(hidden.ToHost(stream_)), TensorNear(expected, Tolerance{1e-5, 4e-3}));
}

// A context's last rows, buffer tokens of two groups, rows to predict, and an idle tile; the places
// that nobody stores to keep what they held, among them the keys of rows before `first`. The
// context is laid out for more rows than it has.
void ExpectKeysAndValuesWhereTheTileSays(int head_dim, int first, int rows, Stream stream) {
  constexpr int kHeads = 4;
  constexpr int kKvHeads = 2;
  constexpr int kLayer = 1;
  constexpr int kContextCapacity = 200;
  constexpr int kCapacity = 5;
  constexpr int kPosition = 3;
  constexpr int kPaths = 16;
  const auto random = [](int64_t n, uint32_t seed) {
    const std::vector<float> numbers = RandomTensor(n, seed);
    std::vector<uint16_t> bits(numbers.size());
    std::transform(numbers.begin(), numbers.end(), bits.begin(), ToBf16);
    return bits;
  };
  const ModelShape shape = {.heads = kHeads, .kv_heads = kKvHeads, .head_dim = head_dim};
  const int stride = shape.qkv_width();
  const std::vector<uint16_t> qkv = random(int64_t{4} * 64 * stride, 1);
  const int64_t context_layer = ContextLayerSize(kContextCapacity, kKvHeads, head_dim);
  const int64_t buffer_layer = BufferLayerSize(kCapacity, kPaths, kKvHeads, head_dim);
  std::vector<uint16_t> in_context = random(2 * context_layer, 2);
  const DeviceArray<uint16_t> context(in_context), buffer(2 * buffer_layer), d_qkv(qkv);
  const DeviceArray<Tile> tiles = DeviceTiles({{.context = context.data(),
                                                .context_rows = 64 + rows,
                                                .context_capacity = kContextCapacity,
                                                .groups = 4,
                                                .first_row = 64,
                                                .encode_first = first,
                                                .encode_rows = rows},
                                               {.buffer = buffer.data(),
                                                .groups = 2,
                                                .buffer_paths = kPaths,
                                                .buffer_capacity = kCapacity,
                                                .append_position = kPosition},
                                               {.groups = 3},
                                               {.groups = 0}});
  const StoreKvParams params = {.tiles = tiles.data(),
                                .qkv = d_qkv.data(),
                                .tile_count = 4,
                                .shape = shape,
                                .kv_layer = kLayer};
  ASSERT_TRUE(ValidateStoreKv(params).ok()) << ValidateStoreKv(params);
  ExpectSuccess(LaunchStoreKv(params, stream), "storing");
  std::vector<uint16_t> in_buffer(2 * buffer_layer, 0xffff);
  for (int head = 0; head < kKvHeads; ++head) {
    uint16_t* const key_block =
        in_context.data() +
        ContextKeyBlockAt(kLayer, head, /*key_block=*/1, kContextCapacity, kKvHeads, head_dim);
    for (int d = 0; d < head_dim; ++d) {
      const int k = (kHeads + head) * head_dim + d;
      const int v = (kHeads + kKvHeads + head) * head_dim + d;
      for (int row = first; row < 64; ++row) {
        const uint16_t* const from = qkv.data() + row * stride;
        key_block[KeyBlockKeyAt(row, d, head_dim)] = row < rows ? from[k] : 0;
        key_block[KeyBlockValueAt(row, d, head_dim)] = row < rows ? from[v] : 0;
      }
      for (int path = 0; path < kPaths; ++path) {
        const int row = 64 + TargetRow(path) + 8;
        uint16_t* const key = in_buffer.data() + kLayer * buffer_layer +
                              BufferKeyAt(head, kPosition, path, kCapacity, kPaths, head_dim);
        key[d] = qkv[row * stride + k];
        key[kPaths * head_dim + d] = qkv[row * stride + v];
      }
    }
  }
  EXPECT_EQ(context.ToHost(stream), in_context);
  EXPECT_EQ(buffer.ToHost(stream), in_buffer);
}

TEST_F(UnfusedRowsTest, StoresKeysAndValuesWhereTheTileSays) {
  for (const int head_dim : {16, 32, 64, 128}) {
    for (const int first : {0, 1, 15, 16, 33, 63}) {
      for (const int rows : {first + 1, 50, 64}) {
        if (rows <= first) continue;
        SCOPED_TRACE(testing::Message()
                     << "heads of " << head_dim << ", rows " << first << " to " << rows);
        ExpectKeysAndValuesWhereTheTileSays(head_dim, first, rows, stream_);
      }
    }
  }
}

// Whether each split has a block or one block has all: the same bits, near the reference.
TEST_F(UnfusedRowsTest, AttentionOfOneBlockHasTheBitsOfSplitsThatAreCombined) {
  for (const auto& [head_dim, use_wgmma] :
       {std::pair(32, false), std::pair(64, false), std::pair(32, true), std::pair(64, true)}) {
    if (use_wgmma && !HasWgmmaAttention(head_dim, properties_.compute_major)) continue;
    SCOPED_TRACE(testing::Message() << head_dim << (use_wgmma ? " wgmma" : " mma"));
    const ProblemShape shape = {.model = {.heads = 4, .kv_heads = 2, .head_dim = head_dim},
                                .score_deviation = 20,
                                .tiles = {{.context_rows = 700},
                                          {.context_rows = 0, .groups = 1},
                                          {.context_rows = 100,
                                           .groups = 3,
                                           .paths = 20,
                                           .capacity = 9,
                                           .visible_query = 8,
                                           .visible_buffer = 9},
                                          {.context_rows = 70, .groups = 0}},
                                .use_wgmma = use_wgmma};
    const TileProblem problem(shape, 3);
    const int width = shape.model.query_width();
    const std::vector<uint16_t> single = problem.LaunchAttended(2 * width, stream_).ToHost(stream_);
    const TileProblem::States states = problem.Launch(KvSplit::kSplit, stream_);
    const DeviceArray<uint16_t> combined(single.size());
    const CombinePartialsParams params = {.tiles = problem.tiles().data(),
                                          .partial_o = states.partial_o.data(),
                                          .partial_ml = states.partial_ml.data(),
                                          .attended = combined.data(),
                                          .tile_count = problem.tile_count(),
                                          .shape = shape.model};
    ASSERT_TRUE(ValidateCombinePartials(params).ok()) << ValidateCombinePartials(params);
    ExpectSuccess(LaunchCombinePartials(params, stream_), "combining");
    EXPECT_EQ(combined.ToHost(stream_), single);
    const Attended reference = problem.Reference();
    for (int64_t row = 0; row < problem.rows(); ++row) {
      if (!problem.Counts(row)) continue;
      const auto expected = reference.out.begin() + row * width;
      const auto actual = single.begin() + row * width;
      ASSERT_THAT(
          FromBits(std::vector<uint16_t>(actual, actual + width)),
          TensorNear(std::vector<float>(expected, expected + width), Tolerance{1.5e-2, 1e-2}))
          << row;
    }
  }
}

TEST(ValidateUnfusedRowsTest, NamesTheField) {
  float f = 0;
  uint16_t b = 0;
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(message(ValidateNormalizeRows({.x = &f, .z = &b, .rows = 1, .width = 2'056})),
              testing::HasSubstr("width is 2056, must be a multiple of 8 up to 2048"));
  EXPECT_THAT(
      message(ValidateNormalizeRows({.x = &f, .z = &b, .gamma = &f, .rows = 1, .width = 8})),
      testing::HasSubstr("beta is null"));
  EXPECT_THAT(message(ValidateGeluRows({.hidden = &b, .b1 = &f, .rows = 1, .width = 4})),
              testing::HasSubstr("width is 4"));
  EXPECT_THAT(message(ValidateHeadParts({})), testing::HasSubstr("x is null"));
  EXPECT_THAT(message(ValidateStoreKv({})), testing::HasSubstr("tiles is null"));
  EXPECT_THAT(message(ValidateCombinePartials({})), testing::HasSubstr("tiles is null"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
