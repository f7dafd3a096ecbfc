// The attention kernel against the float64 reference of the same operation, on the same bf16
// inputs.
#include "kernels/cuda/attention/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/layout/kv_split.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/tile_problem.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

// A softmax weight is rounded to bf16 before it multiplies a value (2^-9 of it), and the
// exponential is accurate to a few 2^-22.
constexpr Tolerance kOut{8e-3, 4e-3};
constexpr Tolerance kLse{4e-6, 4e-6};
// Scores of size 100 are accurate to about 100 * 2^-22.
constexpr Tolerance kLseOfHundreds{1e-4, 4e-6};

// The parameter: whether by wgmma, where one block attends to all splits.
class AttentionTest : public DeviceTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped() && GetParam() && !HasWgmmaAttention(64, properties_.compute_major)) {
      GTEST_SKIP() << "the device has no wgmma";
    }
  }

  static std::vector<int> HeadWidths() {
    return GetParam() ? std::vector<int>{32, 64} : std::vector<int>{16, 32, 64, 128};
  }
  static TileProblem Problem(ProblemShape shape, uint32_t seed) {
    shape.use_wgmma = GetParam();
    return TileProblem(shape, seed);
  }

  void ExpectAgreesWithReference(const ProblemShape& shape, uint32_t seed,
                                 const Tolerance& lse = kLse) {
    const TileProblem problem = Problem(shape, seed);
    const Attended expected = problem.Reference();
    for (KvSplit split : {KvSplit::kSingle, KvSplit::kSplit}) {
      SCOPED_TRACE(split == KvSplit::kSingle ? "together" : "apart");
      const Attended actual = problem.Combine(problem.Launch(split, stream_), stream_);
      EXPECT_THAT(actual.lse, TensorNear(expected.lse, lse));
      EXPECT_THAT(actual.out, TensorNear(expected.out, kOut));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(, AttentionTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Wgmma" : "Mma");
});

TEST_P(AttentionTest, ContextsOfEverySize) {
  ProblemShape shape;
  for (int rows : {1, 2, 15, 16, 17, 63, 64, 65, 100, 128, 129, 255, 257, 600, 4200}) {
    shape.tiles.push_back({.context_rows = rows});
  }
  ExpectAgreesWithReference(shape, 1);
}

TEST_P(AttentionTest, EveryHeadWidthAndGrouping) {
  for (int head_dim : HeadWidths()) {
    for (int kv_heads : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", Hkv " << kv_heads);
      const ProblemShape shape = {.model = {.heads = 4, .kv_heads = kv_heads, .head_dim = head_dim},
                                  .tiles = {{.context_rows = 133,
                                             .groups = 1,
                                             .paths = 7,
                                             .capacity = 6,
                                             .visible_query = 5,
                                             .visible_buffer = 5},
                                            {.context_rows = 300, .groups = 2}}};
      ExpectAgreesWithReference(shape, 2);
    }
  }
}

TEST_P(AttentionTest, BuffersOfDecodeAndDensity) {
  ProblemShape shape;
  for (int visible : {0, 1, 3, 4, 5, 8, 19}) {
    shape.tiles.push_back({.context_rows = 70,
                           .paths = 32,
                           .capacity = 20,
                           .visible_query = visible,
                           .visible_buffer = visible});
    shape.tiles.push_back({.context_rows = 40,
                           .groups = 2,
                           .paths = 9,
                           .capacity = 20,
                           .visible_query = visible,
                           .visible_buffer = visible + 1});
  }
  ExpectAgreesWithReference(shape, 3);
}

TEST_P(AttentionTest, NoContextAtAll) {
  const ProblemShape shape = {
      .tiles = {
          {.context_rows = 0, .paths = 20, .capacity = 3, .visible_query = 0, .visible_buffer = 1},
          {.context_rows = 0, .groups = 1}}};
  const TileProblem problem = Problem(shape, 4);
  const Attended actual = problem.Combine(problem.Launch(KvSplit::kSingle, stream_), stream_);
  EXPECT_EQ(actual.lse[0], -INFINITY);
  EXPECT_EQ(actual.out[0], 0.0f);
  EXPECT_TRUE(std::isfinite(actual.lse[8 * 2])) << "a buffer token sees itself";
  ExpectAgreesWithReference(shape, 4);
}

TEST_P(AttentionTest, ScoresUpToAHundred) {
  ExpectAgreesWithReference({.score_deviation = 30,
                             .tiles = {{.context_rows = 2},
                                       {.context_rows = 700},
                                       {.context_rows = 100,
                                        .paths = 32,
                                        .capacity = 20,
                                        .visible_query = 20,
                                        .visible_buffer = 20}}},
                            5, kLseOfHundreds);
}

// A context that is laid out for more rows than it has.
TEST_P(AttentionTest, TheCapacityOfAContextChangesNoBit) {
  for (int head_dim : HeadWidths()) {
    SCOPED_TRACE(head_dim);
    ProblemShape shape = {.model = {.heads = 4, .kv_heads = 2, .head_dim = head_dim},
                          .tiles = {{.context_rows = 300}, {.context_rows = 70}}};
    for (KvSplit split : {KvSplit::kSingle, KvSplit::kSplit}) {
      for (float largest_log_weight : {-1.0f, 4.0f}) {
        for (TileShape& tile : shape.tiles) {
          tile.context_capacity = 0;
          tile.largest_log_weight = largest_log_weight;
        }
        const std::vector<float> expected =
            Problem(shape, 11).Launch(split, stream_).partial_o.ToHost(stream_);
        for (TileShape& tile : shape.tiles) tile.context_capacity = 1'300;
        EXPECT_THAT(Problem(shape, 11).Launch(split, stream_).partial_o.ToHost(stream_),
                    TensorBitsEqual(expected));
      }
    }
  }
}

// Every key counts once: with equal scores, lse gives the number of keys.
TEST_P(AttentionTest, CountsEveryKey) {
  ProblemShape shape = {.score_deviation = 0, .tiles = {}};
  for (int rows : {0, 1, 64, 65, 300, 1100}) {
    for (int visible : {0, 7, 8, 33}) {
      shape.tiles.push_back({.context_rows = rows,
                             .paths = 32,
                             .capacity = 34,
                             .visible_query = visible,
                             .visible_buffer = visible + 1});
    }
  }
  ExpectAgreesWithReference(shape, 5);
}

TEST_P(AttentionTest, MaximaSixtyApartInBothDirections) {
  ProblemShape shape;
  for (const auto& [context, buffer] : std::vector<std::pair<float, float>>{
           {30, -30}, {-30, 30}, {100, 40}, {40, 100}, {-40, -100}, {-100, -40}, {0, 300}}) {
    shape.tiles.push_back({.context_rows = 300,
                           .paths = 32,
                           .capacity = 7,
                           .visible_query = 6,
                           .visible_buffer = 7,
                           .context_score = context,
                           .buffer_score = buffer});
  }
  ExpectAgreesWithReference(shape, 6, kLseOfHundreds);
}

TEST_P(AttentionTest, WritesWhatIsInUseAndNothingElse) {
  const ProblemShape shape = {.model = {.heads = 1, .kv_heads = 1, .head_dim = 32},
                              .tiles = {{.context_rows = 600, .groups = 0},
                                        {.context_rows = 600, .groups = 3},
                                        {.context_rows = 10, .groups = 1}}};
  const TileProblem problem = Problem(shape, 7);
  const TileProblem::States states = problem.Launch(KvSplit::kSplit, stream_);
  ASSERT_EQ(states.num_splits, 3);
  const std::vector<float> state = states.partial_ml.ToHost(stream_);
  const std::vector<float> o = states.partial_o.ToHost(stream_);
  for (int slot = 0; slot < 3; ++slot) {
    for (int row = 0; row < 192; ++row) {
      const bool written = row >= 64 && row < 64 + 48 ? true : row >= 128 && row < 144 && slot < 1;
      const int at = slot * 192 + row;
      EXPECT_EQ(std::isnan(state[2 * at]), !written) << slot << " " << row;
      EXPECT_EQ(std::isnan(o[32 * at + 5]), !written) << slot << " " << row;
    }
  }
}

// A row's bits depend neither on the other tiles nor on the other rows of its tile.
TEST_P(AttentionTest, ATileAloneHasTheBitsOfTheTileInABatch) {
  const TileShape tile = {
      .context_rows = 500, .paths = 32, .capacity = 9, .visible_query = 9, .visible_buffer = 9};
  const TileProblem alone = Problem({.tiles = {tile}}, 8);
  const TileProblem among =
      Problem({.tiles = {tile, {.context_rows = 40}, {.context_rows = 900}}}, 8);
  for (KvSplit split : {KvSplit::kSingle, KvSplit::kSplit}) {
    const TileProblem::States a = alone.Launch(split, stream_);
    const TileProblem::States b = among.Launch(split, stream_);
    const std::vector<float> expected = a.partial_o.ToHost(stream_);
    std::vector<float> actual = b.partial_o.ToHost(stream_);
    actual.resize(64 * 2 * 32);
    EXPECT_THAT(actual, TensorBitsEqual(
                            std::vector<float>(expected.begin(), expected.begin() + 64 * 2 * 32)));
  }
}

// The next path's values are infinite, or not.
TEST_P(AttentionTest, APathAtInfinityChangesNoOther) {
  for (int head_dim : HeadWidths()) {
    SCOPED_TRACE(head_dim);
    const TileShape tile = {
        .context_rows = 70, .paths = 32, .capacity = 19, .visible_query = 18, .visible_buffer = 19};
    ProblemShape shape = {.model = {.heads = 2, .kv_heads = 1, .head_dim = head_dim},
                          .tiles = {tile}};
    const std::vector<float> expected =
        Problem(shape, 9).Launch(KvSplit::kSingle, stream_).partial_o.ToHost(stream_);
    shape.tiles[0].infinite_path = 10;
    const std::vector<float> actual =
        Problem(shape, 9).Launch(KvSplit::kSingle, stream_).partial_o.ToHost(stream_);
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t row = i / (2 * head_dim);
      const bool is_at_infinity = row / 16 * 8 + row % 8 == 10;
      ASSERT_EQ(actual[i] == expected[i], !is_at_infinity) << "row " << row;
    }
  }
}

// Two tiles of a block, or one: with the same context, with contexts of their own, without rows.
TEST_P(AttentionTest, PairsOfTiles) {
  const TileShape tile = {
      .context_rows = 1000, .paths = 32, .capacity = 30, .visible_query = 29, .visible_buffer = 30};
  TileShape shares = tile;
  shares.shares_context = true;
  TileShape shares_few = shares;
  shares_few.visible_query = shares_few.visible_buffer = 3;
  TileShape idle = tile;
  idle.groups = 0;
  TileShape shares_idle = shares;
  shares_idle.groups = 0;
  TileShape shorter = tile;
  shorter.context_rows = 300;
  const float levels[] = {0, 100};  // scores so large that rows need the shifted sweep
  for (const float level : levels) {
    ProblemShape shape = {.model = {.heads = 2, .kv_heads = 2, .head_dim = 64},
                          .tiles = {tile, shares, shorter, tile, tile, shares_few, idle, shorter,
                                    tile, shares_idle, idle, shares_idle, shorter}};
    for (TileShape& of : shape.tiles) of.context_score = level;
    ExpectAgreesWithReference(shape, 10, level == 0 ? kLse : kLseOfHundreds);
    const std::vector<float> paired =
        Problem(shape, 10).Launch(KvSplit::kSingle, stream_).partial_o.ToHost(stream_);
    shape.multiprocessors = 1000;
    const std::vector<float> alone =
        Problem(shape, 10).Launch(KvSplit::kSingle, stream_).partial_o.ToHost(stream_);
    EXPECT_THAT(paired, TensorBitsEqual(alone));
  }
}

// With wgmma, without it, and combined from splits.
TEST_P(AttentionTest, AllFormsHaveTheSameBits) {
  if (!GetParam()) GTEST_SKIP() << "there is no other";
  for (int head_dim : HeadWidths()) {
    for (float level : {0.0f, 50.0f, -90.0f}) {
      SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", scores about " << level);
      ProblemShape shape = {.model = {.heads = 2, .kv_heads = 2, .head_dim = head_dim},
                            .score_deviation = 20,
                            .tiles = {{.context_rows = 1000,
                                       .paths = 32,
                                       .capacity = 27,
                                       .visible_query = 26,
                                       .visible_buffer = 27,
                                       .context_score = level},
                                      {.context_rows = 130, .groups = 3, .context_score = level}}};
      const TileProblem::States with = Problem(shape, 11).Launch(KvSplit::kSingle, stream_);
      const TileProblem::States without = TileProblem(shape, 11).Launch(KvSplit::kSingle, stream_);
      EXPECT_THAT(with.partial_o.ToHost(stream_),
                  TensorBitsEqual(without.partial_o.ToHost(stream_)));
      EXPECT_THAT(with.partial_ml.ToHost(stream_),
                  TensorBitsEqual(without.partial_ml.ToHost(stream_)));
    }
  }
}

TEST(ValidateAttentionTest, NamesTheField) {
  Tile tile;
  uint16_t q = 0;
  float out = 0;
  const AttentionParams good = {.tiles = &tile,
                                .q = &q,
                                .partial_o = &out,
                                .partial_ml = &out,
                                .tile_count = 1,
                                .shape = {.heads = 4, .kv_heads = 2, .head_dim = 32},
                                .num_splits = 1};
  EXPECT_TRUE(ValidateAttention(good).ok());
  const auto message = [&](auto change) {
    AttentionParams p = good;
    change(p);
    return std::string(ValidateAttention(p).message());
  };
  EXPECT_THAT(message([](AttentionParams& p) { p.q = nullptr; }), testing::HasSubstr("q is null"));
  EXPECT_THAT(message([](AttentionParams& p) { p.shape.head_dim = 8; }),
              testing::HasSubstr("head_dim"));
  EXPECT_THAT(message([](AttentionParams& p) { p.shape.kv_heads = 3; }),
              testing::HasSubstr("kv_heads"));
  EXPECT_THAT(message([](AttentionParams& p) { p.num_splits = 0; }),
              testing::HasSubstr("num_splits"));
  EXPECT_THAT(message([](AttentionParams& p) {
                p.shape.head_dim = 128;
                p.use_wgmma = true;
              }),
              testing::HasSubstr("must be 32 or 64 where wgmma is used"));
}

TEST(HasWgmmaAttentionTest, WhereThereIsWgmma) {
  EXPECT_TRUE(HasWgmmaAttention(32, 9));
  EXPECT_TRUE(HasWgmmaAttention(64, 9));
  EXPECT_FALSE(HasWgmmaAttention(16, 9));
  EXPECT_FALSE(HasWgmmaAttention(64, 8));
  EXPECT_FALSE(HasWgmmaAttention(64, 10));
}

TEST(ChooseSplitTest, SplitsLongContextsOfFewTiles) {
  const ModelShape shape = {.heads = 2, .kv_heads = 2, .head_dim = 64};
  EXPECT_EQ(ChooseSplit(65, shape, 8192, 64, 132, false), KvSplit::kSplit);
  EXPECT_EQ(ChooseSplit(66, shape, 8192, 64, 132, false), KvSplit::kSingle) << "enough tiles";
  EXPECT_EQ(ChooseSplit(32, shape, 8192, 64, 132, true), KvSplit::kSplit);
  EXPECT_EQ(ChooseSplit(33, shape, 8192, 64, 132, true), KvSplit::kSingle) << "faster by wgmma";
  EXPECT_EQ(ChooseSplit(2, shape, 0, 64, 132, false), KvSplit::kSplit) << "buffers alone";
  EXPECT_EQ(ChooseSplit(2, shape, 8192, MaxKvSplits(8192) - 1, 132, false), KvSplit::kSingle)
      << "no room";
}

}  // namespace
}  // namespace chorale::kernels::cuda
