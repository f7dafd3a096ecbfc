// The attention kernel on contexts whose keys have weights (Tile::context_log_weights).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/tile_problem.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

// As in attention_test.cc.
constexpr Tolerance kOut{8e-3, 4e-3};
constexpr Tolerance kLse{4e-6, 4e-6};
constexpr Tolerance kLseOfHundreds{1e-4, 4e-6};

// The parameter: whether by wgmma.
class WeightedAttentionTest : public DeviceTest, public testing::WithParamInterface<bool> {
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

  void ExpectSameBits(const TileProblem& problem, const TileProblem& other) {
    for (KvSplit split : {KvSplit::kSingle, KvSplit::kSplit}) {
      SCOPED_TRACE(split == KvSplit::kSingle ? "together" : "apart");
      const TileProblem::States actual = problem.Launch(split, stream_);
      const TileProblem::States expected = other.Launch(split, stream_);
      EXPECT_THAT(actual.partial_o.ToHost(stream_),
                  TensorBitsEqual(expected.partial_o.ToHost(stream_)));
      EXPECT_THAT(actual.partial_ml.ToHost(stream_),
                  TensorBitsEqual(expected.partial_ml.ToHost(stream_)));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(, WeightedAttentionTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Wgmma" : "Mma");
});

// Among them a tile with the context of the one before, and a tile without weights.
TEST_P(WeightedAttentionTest, ContextsOfEverySize) {
  ProblemShape shape;
  for (int rows : {1, 15, 63, 64, 65, 128, 129, 257, 600, 4200}) {
    shape.tiles.push_back({.context_rows = rows, .largest_log_weight = 3});
  }
  shape.tiles.push_back({.context_rows = 4200, .shares_context = true});
  shape.tiles.push_back({.context_rows = 4200});
  ExpectAgreesWithReference(shape, 1);
}

TEST_P(WeightedAttentionTest, EveryHeadWidthAndGrouping) {
  for (int head_dim : HeadWidths()) {
    for (int kv_heads : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", Hkv " << kv_heads);
      ExpectAgreesWithReference(
          {.model = {.heads = 4, .kv_heads = kv_heads, .head_dim = head_dim},
           .tiles = {{.context_rows = 133,
                      .groups = 1,
                      .paths = 7,
                      .capacity = 6,
                      .visible_query = 5,
                      .visible_buffer = 5,
                      .largest_log_weight = 2},
                     {.context_rows = 300, .groups = 2, .largest_log_weight = 2}}},
          2);
    }
  }
}

// Some rows need the shifted sweep on account of the weights, others on account of the products.
TEST_P(WeightedAttentionTest, WeightsAMillionApart) {
  for (int head_dim : HeadWidths()) {
    SCOPED_TRACE(head_dim);
    ProblemShape shape = {.model = {.heads = 1, .kv_heads = 1, .head_dim = head_dim}, .tiles = {}};
    for (float level : {0.0f, 38.0f, 100.0f, -48.0f, -100.0f}) {
      shape.tiles.push_back(
          {.context_rows = 330, .groups = 2, .context_score = level, .largest_log_weight = 20});
    }
    ExpectAgreesWithReference(shape, 3, kLseOfHundreds);
    shape.score_deviation = 30;
    ExpectAgreesWithReference(shape, 4, kLseOfHundreds);
  }
}

TEST_P(WeightedAttentionTest, WeightsOfOneHaveTheBitsOfNoWeights) {
  for (int head_dim : HeadWidths()) {
    for (float level : {0.0f, 60.0f}) {
      SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", scores about " << level);
      ProblemShape shape = {.model = {.heads = 1, .kv_heads = 1, .head_dim = head_dim},
                            .score_deviation = 10,
                            .tiles = {{.context_rows = 300,
                                       .paths = 32,
                                       .capacity = 9,
                                       .visible_query = 8,
                                       .visible_buffer = 9,
                                       .context_score = level},
                                      {.context_rows = 70, .context_score = level}}};
      const TileProblem without = Problem(shape, 5);
      for (TileShape& tile : shape.tiles) tile.largest_log_weight = 0;
      ExpectSameBits(Problem(shape, 5), without);
    }
  }
}

// With wgmma and without it.
TEST_P(WeightedAttentionTest, BothKernelsHaveTheSameBits) {
  if (!GetParam()) GTEST_SKIP() << "there is no other";
  for (int head_dim : HeadWidths()) {
    for (float level : {0.0f, 50.0f, -90.0f}) {
      SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", scores about " << level);
      const ProblemShape shape = {
          .model = {.heads = 1, .kv_heads = 1, .head_dim = head_dim},
          .score_deviation = 20,
          .tiles = {
              {.context_rows = 600, .context_score = level, .largest_log_weight = 20},
              {.context_rows = 130, .groups = 3, .context_score = level, .largest_log_weight = 4}}};
      ExpectSameBits(Problem(shape, 6), TileProblem(shape, 6));
    }
  }
}

// Some keys of a key block, a whole one and more; the last keys of a context; in both sweeps.
TEST_P(WeightedAttentionTest, PaddingKeysDoNotCount) {
  for (int head_dim : HeadWidths()) {
    for (float level : {0.0f, 80.0f, -80.0f}) {
      SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", scores about " << level);
      ProblemShape shape = {.model = {.heads = 1, .kv_heads = 1, .head_dim = head_dim},
                            .tiles = {}};
      for (const auto& [first, count] : {std::pair{50, 14}, {0, 130}, {60, 180}, {300, 30}}) {
        shape.tiles.push_back({.context_rows = 330,
                               .groups = 2,
                               .context_score = level,
                               .largest_log_weight = 4,
                               .first_padding = first,
                               .padding_keys = count});
      }
      ExpectAgreesWithReference(shape, 7, kLseOfHundreds);
    }
  }
}

}  // namespace
}  // namespace chorale::kernels::cuda
