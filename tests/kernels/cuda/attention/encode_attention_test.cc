// The attention of a context's rows to that context by wgmma, against the float64 reference of the
// same operation, on the same bf16 inputs.
#include "kernels/cuda/attention/encode_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/tile.h"
#include "tests/kernels/cuda/attention/encode_problem.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

// A weight is rounded to bf16 before it multiplies a value, and so is attention itself: 2^-9 each.
constexpr Tolerance kRounding{8e-3, 8e-3};

// The parameter: Dh.
class EncodeAttentionTest : public DeviceTest, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped() && !HasWgmmaAttention(GetParam(), properties_.compute_major)) {
      GTEST_SKIP() << "the device has no wgmma";
    }
  }

  static EncodeProblem Problem(EncodeCase c, uint32_t seed) {
    c.head_dim = GetParam();
    return EncodeProblem(c, seed);
  }

  void ExpectAgreesWithReference(const EncodeCase& c, uint32_t seed) const {
    const EncodeProblem problem = Problem(c, seed);
    const int count = c.tile_count > 0 ? c.tile_count : problem.Tiles();
    const std::vector<uint16_t> bits = problem.Launch(c.first_tile, count, stream_);
    const int64_t width = int64_t{c.heads} * GetParam();
    std::vector<float> actual;
    for (int64_t i = 0; i < problem.UsedRows(c.first_tile, count) * width; ++i) {
      actual.push_back(FromBf16(bits[c.first_tile * kTileRows * width + i]));
    }
    EXPECT_THAT(actual, TensorNear(problem.Reference(c.first_tile, count), kRounding));
  }
};

TEST_P(EncodeAttentionTest, AgreesWithTheReference) {
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

// A context that is laid out for more rows than it has, with weights or without.
TEST_P(EncodeAttentionTest, TheCapacityOfAContextChangesNoBit) {
  for (const std::function<float(int)>& log_weight :
       {std::function<float(int)>(), std::function<float(int)>([](int key) { return key % 3; })}) {
    EncodeCase c = {.rows = 150, .heads = 4, .kv_heads = 2, .log_weight = log_weight};
    const std::vector<uint16_t> expected = Problem(c, 1).Launch(0, 3, stream_);
    for (const int capacity : {192, 193, 700}) {
      c.capacity = capacity;
      EXPECT_EQ(Problem(c, 1).Launch(0, 3, stream_), expected) << capacity;
    }
  }
}

TEST_P(EncodeAttentionTest, CountsEveryKey) {
  for (int rows : {63, 191, 257}) {
    SCOPED_TRACE(rows);
    ExpectAgreesWithReference({.rows = rows, .score_deviation = 0, .tile_count = 1}, 2);
  }
}

// Rows need the shifted sweep or not; in it, the maximum is raised by much, by little and not at
// all.
TEST_P(EncodeAttentionTest, ScoresThatRiseAndFall) {
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

// Weights from 2^-largest to 2^largest.
std::function<float(int)> WeightsUpTo(float largest) {
  return [=](int key) { return largest * (static_cast<float>(key * 37 % 101) / 50 - 1); };
}

TEST_P(EncodeAttentionTest, Weights) {
  for (const EncodeCase& c :
       {EncodeCase{.rows = 1, .log_weight = WeightsUpTo(2)},
        EncodeCase{.rows = 150, .heads = 4, .kv_heads = 2, .log_weight = WeightsUpTo(3)},
        EncodeCase{.rows = 64, .log_weight = WeightsUpTo(3)},
        EncodeCase{.rows = 600, .score_deviation = 0, .log_weight = WeightsUpTo(6)},
        EncodeCase{
            .rows = 1'250, .log_weight = WeightsUpTo(5), .first_tile = 18, .tile_count = 2}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.heads << " heads");
    ExpectAgreesWithReference(c, 10);
  }
  for (float level : {0.0f, 38.0f, 90.0f, -48.0f, -90.0f}) {
    SCOPED_TRACE(testing::Message() << "weights a million apart, scores about " << level);
    ExpectAgreesWithReference({.rows = 600,
                               .level = [=](int /*key*/) { return level; },
                               .log_weight = WeightsUpTo(20),
                               .first_tile = 4,
                               .tile_count = 1},
                              11);
  }
}

// As in a workspace: the keys of a set with weights, padding keys, and rows whose weights are 1.
TEST_P(EncodeAttentionTest, PaddingKeysDoNotCount) {
  for (int set : {100, 64, 0}) {
    for (float level : {0.0f, 80.0f, -80.0f}) {
      SCOPED_TRACE(testing::Message() << set << " keys in a set, scores about " << level);
      ExpectAgreesWithReference({.rows = 400,
                                 .level = [=](int /*key*/) { return level; },
                                 .log_weight =
                                     [=](int key) {
                                       if (key < set) return WeightsUpTo(3)(key);
                                       return key < 192 ? kNoKeyLogWeight : 0.0f;
                                     },
                                 .first_tile = 3,
                                 .tile_count = 2},
                                12);
    }
  }
}

// Cases whose rows are all done by the plain sweep, and whose rows all need the shifted one, each
// with its own steps in which the maximum is raised. The same with weights.
std::vector<EncodeCase> CasesOfBothSweeps() {
  EncodeCase plain = {.rows = 300, .heads = 2, .score_deviation = 8};
  EncodeCase shifted = plain;
  shifted.level = [](int key) { return 70 + 0.05f * static_cast<float>(key); };
  std::vector<EncodeCase> cases = {plain, shifted};
  for (EncodeCase c : {plain, shifted}) {
    c.log_weight = WeightsUpTo(10);
    cases.push_back(c);
  }
  return cases;
}

TEST_P(EncodeAttentionTest, WeightsOfOneHaveTheBitsOfNoWeights) {
  for (EncodeCase c : CasesOfBothSweeps()) {
    if (c.log_weight) continue;
    SCOPED_TRACE(c.level(0));
    const std::vector<uint16_t> expected = Problem(c, 13).Launch(0, 3, stream_);
    c.log_weight = WeightsUpTo(0);
    EXPECT_THAT(Problem(c, 13).Launch(0, 3, stream_), TensorBitsEqual(expected));
  }
}

// A row's bits depend neither on the other tiles of a launch nor on its place among them; nothing
// is written beyond the tiles of a launch.
TEST_P(EncodeAttentionTest, ATileAloneHasTheBitsOfTheTileInALaunchOfAll) {
  for (const EncodeCase& c : CasesOfBothSweeps()) {
    SCOPED_TRACE(c.level(0));
    const EncodeProblem problem = Problem(c, 5);
    const std::vector<uint16_t> all = problem.Launch(0, problem.Tiles(), stream_);
    const size_t tile_size = all.size() / problem.Tiles();
    for (int tile = 0; tile < problem.Tiles(); ++tile) {
      std::vector<uint16_t> expected(all.size(), EncodeProblem::kUnwritten);
      std::copy_n(all.begin() + tile * tile_size, tile_size, expected.begin() + tile * tile_size);
      EXPECT_THAT(problem.Launch(tile, 1, stream_), TensorBitsEqual(expected)) << tile;
    }
  }
}

// Nor on how many tiles its block has.
TEST_P(EncodeAttentionTest, BlocksOfAnySizeGiveTheSameBits) {
  for (EncodeCase c : CasesOfBothSweeps()) {
    SCOPED_TRACE(c.level(0));
    c.kv_heads = 2;
    const EncodeProblem problem = Problem(c, 7);
    const auto launch = [&](int multiprocessors) {
      return problem.Launch(0, problem.Tiles(), stream_, multiprocessors);
    };
    const std::vector<uint16_t> threes = launch(4);
    EXPECT_THAT(launch(1), TensorBitsEqual(threes)) << "three and two";
    EXPECT_THAT(launch(6), TensorBitsEqual(threes)) << "twos";
    EXPECT_THAT(launch(132), TensorBitsEqual(threes)) << "ones";
  }
}

// Nor do they depend on the other rows of the tile, of which some share a warp with it, and on its
// place among them.
TEST_P(EncodeAttentionTest, ARowHasTheSameBitsAnywhereInATile) {
  for (EncodeCase c : CasesOfBothSweeps()) {
    SCOPED_TRACE(c.level(0));
    std::vector<uint16_t> expected = Problem(c, 6).Launch(0, 1, stream_);
    c.rotation = 8;
    const std::vector<uint16_t> actual = Problem(c, 6).Launch(0, 1, stream_);
    const int64_t width = int64_t{c.heads} * GetParam();
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

TEST_P(EncodeAttentionTest, RowsOfBothSweepsInATile) {
  EncodeCase c = MixedRows();
  ExpectAgreesWithReference(c, 8);
  c.first_tile = 4;  // a block of one tile whose last rows are not in use
  c.tile_count = 1;
  ExpectAgreesWithReference(c, 8);
}

// Nor do a row's bits depend on which sweep other rows need.
TEST_P(EncodeAttentionTest, ARowHasTheSameBitsBesideRowsOfEitherSweep) {
  EncodeCase c = MixedRows();
  const EncodeProblem mixed = Problem(c, 9);
  const std::vector<uint16_t> bits = mixed.Launch(0, mixed.Tiles(), stream_);
  const int64_t width = int64_t{c.heads} * GetParam();
  for (const bool fits : {true, false}) {
    // The other rows do what these do.
    c.factor = [=](int row) {
      return FitsThePlainSweep(row) == fits ? FactorOfRow(row) : fits ? kFits : 1.0f;
    };
    const EncodeProblem alike = Problem(c, 9);
    const std::vector<uint16_t> expected = alike.Launch(0, alike.Tiles(), stream_);
    for (int row = 0; row < c.rows; ++row) {
      if (FitsThePlainSweep(row) != fits) continue;
      EXPECT_TRUE(std::equal(bits.begin() + row * width, bits.begin() + (row + 1) * width,
                             expected.begin() + row * width))
          << "row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, EncodeAttentionTest, testing::Values(32, 64));

TEST(ChooseEncodeBlocksTest, TakesTheShortestRounds) {
  const auto blocks = [](int tiles, int heads, int multiprocessors) {
    const EncodeBlocks chosen = ChooseEncodeBlocks(tiles, heads, multiprocessors);
    return std::tuple(chosen.of_three, chosen.others, chosen.other_tiles);
  };
  EXPECT_EQ(blocks(132, 16, 132), std::tuple(41, 5, 2)) << "five rounds, and blocks of two tiles";
  EXPECT_EQ(blocks(128, 16, 132), std::tuple(41, 5, 1)) << "five rounds, and 80 blocks of one tile";
  EXPECT_EQ(blocks(128, 12, 132), std::tuple(43, 0, 1)) << "the fourth round is nearly full";
  EXPECT_EQ(blocks(132, 2, 132), std::tuple(0, 66, 2)) << "one round of blocks of two";
  EXPECT_EQ(blocks(128, 4, 132), std::tuple(0, 64, 2)) << "two rounds of blocks of two";
  EXPECT_EQ(blocks(16, 2, 132), std::tuple(0, 16, 1)) << "a block for each tile fits";
  // As in the test of their bits.
  EXPECT_EQ(blocks(5, 2, 1), std::tuple(1, 1, 2));
  EXPECT_EQ(blocks(5, 2, 4), std::tuple(2, 0, 1));
  EXPECT_EQ(blocks(5, 2, 6), std::tuple(0, 3, 2));
  EXPECT_EQ(blocks(5, 2, 132), std::tuple(0, 5, 1));
}

TEST(EncodeLaunchTilesTest, FillsRoundsOfBlocksOfThree) {
  EXPECT_EQ(EncodeLaunchTiles(1, 132), 396);
  EXPECT_EQ(EncodeLaunchTiles(2, 132), 198);
  EXPECT_EQ(EncodeLaunchTiles(4, 132), 198);
  EXPECT_EQ(EncodeLaunchTiles(12, 132), 132);
  EXPECT_EQ(EncodeLaunchTiles(16, 132), 147);
  EXPECT_EQ(EncodeLaunchTiles(16, 1), 3);
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
  EXPECT_THAT(message([](Params& p) { p.shape.head_dim = 16; }), testing::HasSubstr("head_dim"));
  EXPECT_THAT(message([](Params& p) { p.q_stride = 513; }), testing::HasSubstr("q_stride"));
  EXPECT_THAT(message([](Params& p) { p.q_stride = 248; }), testing::HasSubstr("q_stride"));
  EXPECT_THAT(message([](Params& p) { p.multiprocessors = 0; }),
              testing::HasSubstr("multiprocessors"));
  EXPECT_THAT(message([](Params& p) { p.layer = -1; }), testing::HasSubstr("layer"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
