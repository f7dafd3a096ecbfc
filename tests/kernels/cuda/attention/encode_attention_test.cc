// The attention of a context's rows to that context by wgmma, against the float64 reference of the
// same operation, on the same bf16 inputs.
#include "kernels/cuda/attention/encode_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/ops/panel_layout.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kHeadDim = 64;
constexpr int kLayers = 2;
constexpr int kLayer = 1;  // the one that is attended to; the other is NaN
constexpr uint16_t kNanBf16 = 0x7fff;
constexpr uint16_t kUnwritten = 0xffff;  // see DeviceArray
// Element 0 of every query, so that element 0 of a key shifts all its scores by a chosen number.
constexpr float kQueryLevel = 4;

// A weight is rounded to bf16 before it multiplies a value, and so is attention itself: 2^-9 each.
constexpr Tolerance kRounding{8e-3, 8e-3};

struct EncodeCase {
  int rows = 0;  // of the context
  int heads = 1;
  int kv_heads = 1;
  float score_deviation = 1;  // roughly
  // Mean score of a key.
  std::function<float(int)> level = [](int /*key*/) { return 0.0f; };
  // What multiplies the scores of a row.
  std::function<float(int)> factor = [](int /*row*/) { return 1.0f; };
  // The tiles of the launch.
  int first_tile = 0;
  int tile_count = 0;
  // By how many rows q is rotated within each tile: row 0 has that of this row, and so on.
  int rotation = 0;
};

std::vector<float> Rounded(std::vector<float> values) {
  for (float& x : values) x = FromBf16(ToBf16(x));
  return values;
}

// A context of random rows that is being encoded, with q, K and V of one layer.
class EncodeProblem {
 public:
  explicit EncodeProblem(const EncodeCase& shape, uint32_t seed) : shape_(shape) {
    const float deviation = shape.score_deviation / 8 / std::numbers::ln2_v<float>;
    q_ = RandomTensor(Rows() * shape.heads * kHeadDim, seed, deviation);
    for (size_t i = 0; i < q_.size(); i += kHeadDim) q_[i] = kQueryLevel;
    for (size_t i = 0; i < q_.size(); ++i) {
      q_[i] *= shape.factor(static_cast<int>(i / (shape.heads * kHeadDim)));
    }
    k_ = RandomTensor(shape.rows * KvWidth(), seed + 1);
    for (size_t i = 0; i < k_.size(); i += kHeadDim) {
      k_[i] =
          shape.level(static_cast<int>(i / KvWidth())) / kQueryLevel / std::numbers::ln2_v<float>;
    }
    const int64_t width = int64_t{shape.heads} * kHeadDim;
    for (int i = 0; i < Tiles(); ++i) {
      const auto tile = q_.begin() + i * kTileRows * width;
      std::rotate(tile, tile + shape.rotation * width, tile + kTileRows * width);
    }
    q_ = Rounded(q_);
    k_ = Rounded(k_);
    v_ = Rounded(RandomTensor(shape.rows * KvWidth(), seed + 2));
    PackRows();
    PackContext();
    std::vector<Tile> tiles;
    for (int i = 0; i < Tiles(); ++i) {
      const int rows = std::min(kTileRows, shape.rows - i * kTileRows);
      tiles.push_back({.context = context_.data(),
                       .context_rows = shape.rows,
                       .groups = (rows + kGroupRows - 1) / kGroupRows,
                       .first_row = i * kTileRows,
                       .encode_rows = rows});
    }
    tiles_ = DeviceArray<Tile>(tiles);
  }

  int Tiles() const { return (shape_.rows + kTileRows - 1) / kTileRows; }

  // Attention of a launch's tiles by the kernel: the bits, [Tiles(), 64, H, Dh]. Those of other
  // tiles are kUnwritten.
  std::vector<uint16_t> Launch(int first, int count, Stream stream, int multiprocessors = 1) const {
    const int64_t width = int64_t{shape_.heads} * kHeadDim;
    const DeviceArray<uint16_t> attended(Rows() * width);
    const int64_t row = int64_t{first} * kTileRows;
    const EncodeAttentionParams params = {
        .tiles = tiles_.data() + first,
        .q = rows_.data() + row * Stride(),
        .q_stride = Stride(),
        .attended = attended.data() + row * width,
        .tile_count = count,
        .shape = {.heads = shape_.heads, .kv_heads = shape_.kv_heads, .head_dim = kHeadDim},
        .layer = kLayer,
        .multiprocessors = multiprocessors};
    EXPECT_TRUE(ValidateEncodeAttention(params).ok()) << ValidateEncodeAttention(params);
    ExpectSuccess(LaunchEncodeAttention(params, stream), "launching attention");
    return attended.ToHost(stream);
  }

  // Attention of the rows of a launch's tiles that are in use, [rows, H, Dh].
  std::vector<float> Reference(int first, int count) const {
    const int64_t n = shape_.rows;
    std::vector<float> keys(shape_.kv_heads * PackedKeysSize(n, kHeadDim));
    std::vector<float> values(shape_.kv_heads * ValuesSize(n, kHeadDim));
    reference::AppendKv({.k = k_.data(),
                         .v = v_.data(),
                         .keys = keys.data(),
                         .values = values.data(),
                         .n = n,
                         .capacity = n,
                         .kv_heads = shape_.kv_heads,
                         .head_dim = kHeadDim,
                         .kv_stride = KvWidth()});
    const int64_t width = int64_t{shape_.heads} * kHeadDim;
    const int64_t row = int64_t{first} * kTileRows;
    const int64_t rows = UsedRows(first, count);
    std::vector<float> out(rows * width);
    reference::SharedContextAttention({.q = q_.data() + row * width,
                                       .out = out.data(),
                                       .context_keys = keys.data(),
                                       .context_values = values.data(),
                                       .rows = rows,
                                       .heads = shape_.heads,
                                       .kv_heads = shape_.kv_heads,
                                       .head_dim = kHeadDim,
                                       .context_rows = n,
                                       .q_stride = width,
                                       .out_stride = width,
                                       .scale = std::numbers::ln2_v<float>});
    return out;
  }

  int64_t UsedRows(int first, int count) const {
    return std::min(shape_.rows, (first + count) * kTileRows) - first * kTileRows;
  }

 private:
  int64_t Rows() const { return int64_t{Tiles()} * kTileRows; }
  int64_t KvWidth() const { return int64_t{shape_.kv_heads} * kHeadDim; }
  int64_t Stride() const { return int64_t{shape_.heads} * kHeadDim + 2 * KvWidth(); }

  // q, and NaN where a layer's K and V would be.
  void PackRows() {
    const int64_t width = int64_t{shape_.heads} * kHeadDim;
    std::vector<uint16_t> rows(Rows() * Stride(), kNanBf16);
    for (int64_t row = 0; row < Rows(); ++row) {
      for (int64_t i = 0; i < width; ++i) rows[row * Stride() + i] = ToBf16(q_[row * width + i]);
    }
    rows_ = DeviceArray<uint16_t>(rows);
  }

  void PackContext() {
    const int64_t layer_size = ContextLayerSize(shape_.rows, shape_.kv_heads, kHeadDim);
    std::vector<uint16_t> packed(kLayers * layer_size, kNanBf16);
    const int64_t blocks = ContextKeyBlocks(shape_.rows);
    for (int64_t key = 0; key < blocks * kKeyBlockKeys; ++key) {
      for (int64_t h = 0; h < shape_.kv_heads; ++h) {
        uint16_t* block = packed.data() + ContextKeyBlockAt(kLayer, h, key / kKeyBlockKeys,
                                                            shape_.rows, shape_.kv_heads, kHeadDim);
        const auto in_block = static_cast<int>(key % kKeyBlockKeys);
        for (int d = 0; d < kHeadDim; ++d) {
          const int64_t at = key * KvWidth() + h * kHeadDim + d;
          const bool is_row = key < shape_.rows;
          if (is_row) block[KeyBlockKeyAt(in_block, d, kHeadDim)] = ToBf16(k_[at]);
          block[KeyBlockValueAt(in_block, d, kHeadDim)] = is_row ? ToBf16(v_[at]) : 0;
        }
      }
    }
    context_ = DeviceArray<uint16_t>(packed);
  }

  const EncodeCase shape_;
  // In float32, exactly representable in bf16.
  std::vector<float> q_;  // [Rows(), H, Dh]
  std::vector<float> k_;  // [rows, Hkv, Dh]
  std::vector<float> v_;
  DeviceArray<uint16_t> rows_;
  DeviceArray<uint16_t> context_;
  DeviceArray<Tile> tiles_;
};

class EncodeAttentionTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped() && !HasEncodeAttention(kHeadDim, properties_.compute_major)) {
      GTEST_SKIP() << "the device has no wgmma";
    }
  }

  void ExpectAgreesWithReference(const EncodeCase& c, uint32_t seed) const {
    const EncodeProblem problem(c, seed);
    const int count = c.tile_count > 0 ? c.tile_count : problem.Tiles();
    const std::vector<uint16_t> bits = problem.Launch(c.first_tile, count, stream_);
    const int64_t width = int64_t{c.heads} * kHeadDim;
    std::vector<float> actual;
    for (int64_t i = 0; i < problem.UsedRows(c.first_tile, count) * width; ++i) {
      actual.push_back(FromBf16(bits[c.first_tile * kTileRows * width + i]));
    }
    EXPECT_THAT(actual, TensorNear(problem.Reference(c.first_tile, count), kRounding));
  }
};

TEST_F(EncodeAttentionTest, AgreesWithTheReference) {
  // One row; whole key blocks; heads that share a K/V head; a ring that is filled again, from the
  // middle of a context to its end.
  for (const EncodeCase& c : {EncodeCase{.rows = 1}, EncodeCase{.rows = 128},
                              EncodeCase{.rows = 150, .heads = 2, .kv_heads = 1},
                              EncodeCase{.rows = 65, .heads = 4, .kv_heads = 2},
                              EncodeCase{.rows = 1'250, .first_tile = 18, .tile_count = 2}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.heads << " heads");
    ExpectAgreesWithReference(c, 1);
  }
}

TEST_F(EncodeAttentionTest, CountsEveryKey) {
  for (int rows : {63, 191, 257}) {
    SCOPED_TRACE(rows);
    ExpectAgreesWithReference({.rows = rows, .score_deviation = 0, .tile_count = 1}, 2);
  }
}

// Rows need the shifted sweep or not; in it, the maximum is raised by much, by little and not at
// all.
TEST_F(EncodeAttentionTest, ScoresThatRiseAndFall) {
  const std::vector<std::function<float(int)>> levels = {
      [](int key) { return static_cast<float>(key) * 0.03f; },
      [](int key) { return static_cast<float>(key) * 0.2f - 60; },
      [](int key) { return static_cast<float>(key) * -0.2f; },
      [](int key) { return key / 100 % 2 == 0 ? -50.0f : 50.0f; },
      [](int key) { return key == 400 ? 90.0f : -90.0f; },
      [](int key) { return static_cast<float>(key % 60) - 90; },
      [](int /*key*/) { return -88.0f; },
      [](int /*key*/) { return -95.0f; },
      [](int /*key*/) { return 95.0f; }};
  for (size_t i = 0; i < levels.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectAgreesWithReference({.rows = 600, .level = levels[i], .first_tile = 4, .tile_count = 1},
                              3);
  }
  ExpectAgreesWithReference({.rows = 600, .score_deviation = 30, .tile_count = 1}, 4);
}

// Cases whose rows are all done by the plain sweep, and whose rows all need the shifted one, each
// with its own steps in which the maximum is raised.
std::vector<EncodeCase> CasesOfBothSweeps() {
  EncodeCase plain = {.rows = 300, .heads = 2, .score_deviation = 8};
  EncodeCase shifted = plain;
  shifted.level = [](int key) { return 70 + 0.05f * static_cast<float>(key); };
  return {plain, shifted};
}

// A row's bits depend neither on the other tiles of a launch nor on its place among them; nothing
// is written beyond the tiles of a launch.
TEST_F(EncodeAttentionTest, ATileAloneHasTheBitsOfTheTileInALaunchOfAll) {
  for (const EncodeCase& c : CasesOfBothSweeps()) {
    SCOPED_TRACE(c.level(0));
    const EncodeProblem problem(c, 5);
    const std::vector<uint16_t> all = problem.Launch(0, problem.Tiles(), stream_);
    const size_t tile_size = all.size() / problem.Tiles();
    for (int tile = 0; tile < problem.Tiles(); ++tile) {
      std::vector<uint16_t> expected(all.size(), kUnwritten);
      std::copy_n(all.begin() + tile * tile_size, tile_size, expected.begin() + tile * tile_size);
      EXPECT_THAT(problem.Launch(tile, 1, stream_), TensorBitsEqual(expected)) << tile;
    }
  }
}

// Nor on how many tiles its block has.
TEST_F(EncodeAttentionTest, BlocksOfOneAndOfThreeTilesGiveTheSameBits) {
  for (EncodeCase c : CasesOfBothSweeps()) {
    SCOPED_TRACE(c.level(0));
    c.kv_heads = 2;
    const EncodeProblem problem(c, 7);
    const std::vector<uint16_t> threes = problem.Launch(0, problem.Tiles(), stream_, 1);
    EXPECT_THAT(problem.Launch(0, problem.Tiles(), stream_, 4), TensorBitsEqual(threes)) << "mixed";
    EXPECT_THAT(problem.Launch(0, problem.Tiles(), stream_, 132), TensorBitsEqual(threes))
        << "ones";
  }
}

// Nor do they depend on the other rows of the tile, of which some share a warp with it, and on its
// place among them.
TEST_F(EncodeAttentionTest, ARowHasTheSameBitsAnywhereInATile) {
  for (EncodeCase c : CasesOfBothSweeps()) {
    SCOPED_TRACE(c.level(0));
    std::vector<uint16_t> expected = EncodeProblem(c, 6).Launch(0, 1, stream_);
    c.rotation = 8;
    const std::vector<uint16_t> actual = EncodeProblem(c, 6).Launch(0, 1, stream_);
    const int64_t width = int64_t{c.heads} * kHeadDim;
    std::rotate(expected.begin(), expected.begin() + c.rotation * width,
                expected.begin() + kTileRows * width);
    EXPECT_THAT(actual, TensorBitsEqual(expected));
  }
}

// Factors of rows, of which two thirds need the shifted sweep: in some the scores are large, in
// others all are small.
constexpr float kFits = 0.25f;
float FactorOfRow(int row) { return row % 3 == 1 ? kFits : static_cast<float>(row % 3 - 1); }
bool FitsThePlainSweep(int row) { return FactorOfRow(row) == kFits; }
EncodeCase MixedRows() {
  return {.rows = 300,
          .heads = 2,
          .score_deviation = 3,
          .level = [](int key) { return static_cast<float>(90 + key % 7); },
          .factor = FactorOfRow};
}

TEST_F(EncodeAttentionTest, RowsOfBothSweepsInATile) {
  EncodeCase c = MixedRows();
  ExpectAgreesWithReference(c, 8);
  c.first_tile = 4;  // a block of one tile whose last rows are not in use
  c.tile_count = 1;
  ExpectAgreesWithReference(c, 8);
}

// Nor do a row's bits depend on which sweep other rows need.
TEST_F(EncodeAttentionTest, ARowHasTheSameBitsBesideRowsOfEitherSweep) {
  EncodeCase c = MixedRows();
  const EncodeProblem mixed(c, 9);
  const std::vector<uint16_t> bits = mixed.Launch(0, mixed.Tiles(), stream_);
  const int64_t width = int64_t{c.heads} * kHeadDim;
  for (const bool fits : {true, false}) {
    // The other rows do what these do.
    c.factor = [=](int row) {
      return FitsThePlainSweep(row) == fits ? FactorOfRow(row) : fits ? kFits : 1.0f;
    };
    const EncodeProblem alike(c, 9);
    const std::vector<uint16_t> expected = alike.Launch(0, alike.Tiles(), stream_);
    for (int row = 0; row < c.rows; ++row) {
      if (FitsThePlainSweep(row) != fits) continue;
      EXPECT_TRUE(std::equal(bits.begin() + row * width, bits.begin() + (row + 1) * width,
                             expected.begin() + row * width))
          << "row " << row;
    }
  }
}

TEST(ChooseEncodeBlocksTest, FillsTheLastRound) {
  const auto blocks = [](int tiles, int heads, int multiprocessors) {
    const EncodeBlocks chosen = ChooseEncodeBlocks(tiles, heads, multiprocessors);
    return std::pair(chosen.of_three, chosen.of_one);
  };
  EXPECT_EQ(blocks(128, 16, 132), std::pair(41, 5)) << "five rounds, and 80 blocks of one tile";
  EXPECT_EQ(blocks(128, 12, 132), std::pair(43, 0)) << "the fourth round is nearly full";
  EXPECT_EQ(blocks(8, 16, 132), std::pair(0, 8)) << "a block for each tile fits";
  EXPECT_EQ(blocks(9, 16, 132), std::pair(3, 0));
  // As in the test of their bits.
  EXPECT_EQ(blocks(5, 2, 1), std::pair(2, 0));
  EXPECT_EQ(blocks(5, 2, 4), std::pair(1, 2));
  EXPECT_EQ(blocks(5, 2, 132), std::pair(0, 5));
}

TEST(HasEncodeAttentionTest, WhereThereIsWgmma) {
  EXPECT_TRUE(HasEncodeAttention(64, 9));
  EXPECT_FALSE(HasEncodeAttention(32, 9));
  EXPECT_FALSE(HasEncodeAttention(64, 8));
  EXPECT_FALSE(HasEncodeAttention(64, 10));
}

TEST(ValidateEncodeAttentionTest, NamesTheField) {
  Tile tile;
  uint16_t element = 0;
  const EncodeAttentionParams good = {.tiles = &tile,
                                      .q = &element,
                                      .q_stride = 512,
                                      .attended = &element,
                                      .tile_count = 1,
                                      .shape = {.heads = 4, .kv_heads = 2, .head_dim = 64}};
  EXPECT_TRUE(ValidateEncodeAttention(good).ok());
  const auto message = [&](auto change) {
    EncodeAttentionParams p = good;
    change(p);
    return std::string(ValidateEncodeAttention(p).message());
  };
  using Params = EncodeAttentionParams;
  EXPECT_THAT(message([](Params& p) { p.q = nullptr; }), testing::HasSubstr("q is null"));
  EXPECT_THAT(message([](Params& p) { p.tile_count = 0; }), testing::HasSubstr("tile_count"));
  EXPECT_THAT(message([](Params& p) { p.shape.kv_heads = 3; }), testing::HasSubstr("kv_heads"));
  EXPECT_THAT(message([](Params& p) { p.shape.head_dim = 32; }), testing::HasSubstr("head_dim"));
  EXPECT_THAT(message([](Params& p) { p.q_stride = 513; }), testing::HasSubstr("q_stride"));
  EXPECT_THAT(message([](Params& p) { p.q_stride = 248; }), testing::HasSubstr("q_stride"));
  EXPECT_THAT(message([](Params& p) { p.multiprocessors = 0; }),
              testing::HasSubstr("multiprocessors"));
  EXPECT_THAT(message([](Params& p) { p.layer = -1; }), testing::HasSubstr("layer"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
