// Attention to context keys that have weights, and of rows that do not attend to a key. Paddings,
// unseen keys and outputs are NaN in every problem (attention_problem.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "kernels/ops/shared_context_attention.h"
#include "tests/kernels/ops/attention_problem.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

using Tensor = std::vector<float>;
using Result = AttentionProblem::Result;
constexpr Tolerance kTight{2e-6, 4e-6};
constexpr Tolerance kRounding{3e-6, 5e-6};
// As for scores up to a hundred in shared_context_attention_test.cc.
constexpr Tolerance kHundred{1e-4, 1e-4};
constexpr Tolerance kLse{1e-5, 1e-6};

void ExpectAgreesWithReference(const AttentionProblem& problem, const Tolerance& tolerance) {
  const Result expected = problem.Run(&reference::SharedContextAttention);
  const Result actual = problem.Run(&SharedContextAttention);
  EXPECT_THAT(actual.out, TensorNear(expected.out, tolerance));
  EXPECT_THAT(actual.lse, TensorNear(expected.lse, kLse));
}

AttentionShape Shape(int64_t rows, int64_t context_rows) {
  AttentionShape shape;
  shape.rows = rows;
  shape.kv_heads = 2;
  shape.head_dim = 16;
  shape.context_rows = context_rows;
  return shape;
}

TEST(ReferenceWeightedAttentionTest, AKeyOfWeightTwoIsTheKeyTwice) {
  AttentionProblem weighted(Shape(5, 20), 1);
  const AttentionProblem twice = weighted.WithKeysTwice(7);
  weighted.WeighContext(std::log(2.0f), 0, 7, 2);
  const Result expected = twice.Run(&reference::SharedContextAttention);
  const Result actual = weighted.Run(&reference::SharedContextAttention);
  EXPECT_THAT(actual.out, TensorNear(expected.out, Tolerance{1e-6, 1e-6}));
  EXPECT_THAT(actual.lse, TensorNear(expected.lse, Tolerance{1e-6, 1e-6}));
}

class WeightedAttentionTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(WeightedAttentionTest);

TEST_P(WeightedAttentionTest, RaggedRowsAndContextsWithBuffers) {
  for (int64_t rows : {1, 7, 9, 33, 65}) {
    for (int64_t context_rows : {1, 15, 16, 17, 100, 129, 300}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, context " << context_rows);
      AttentionShape shape = Shape(rows, context_rows);
      shape.buffer_capacity = 20;
      AttentionProblem problem(WithDecodeBuffers(shape, 2), 1);
      problem.WeighContext(2, 1, context_rows, 2);
      ExpectAgreesWithReference(problem, kTight);
      problem.HideKeys();
      ExpectAgreesWithReference(problem, kTight);
    }
  }
}

TEST_P(WeightedAttentionTest, EveryHeadWidthAndGrouping) {
  for (int64_t head_dim : {8, 16, 32, 64, 128}) {
    for (int64_t kv_heads : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", Hkv " << kv_heads);
      AttentionShape shape = Shape(21, 133);
      shape.kv_heads = kv_heads;
      shape.head_dim = head_dim;
      AttentionProblem problem(shape, 3);
      problem.WeighContext(1, 2, 100, 4);
      problem.HideKeys();
      ExpectAgreesWithReference(problem, kTight);
    }
  }
}

// The keys of a set have weights, those of the segment after it none.
TEST_P(WeightedAttentionTest, SetAndSegmentSixtyApartInBothDirections) {
  for (const float log_weight : {60.0f, -60.0f, 100.0f, -100.0f, 300.0f}) {
    SCOPED_TRACE(log_weight);
    AttentionProblem problem(Shape(12, 150), 5);
    problem.WeighContext(log_weight, 1, 70, 6);
    ExpectAgreesWithReference(problem, kHundred);
  }
}

TEST_P(WeightedAttentionTest, HugeAndTinyWeightsOfScoresUpToAHundred) {
  AttentionProblem problem(Shape(9, 200), 7);
  problem.ScaleScores(100);
  problem.WeighContext(0, 20, 200, 8);
  problem.HideKeys();
  ExpectAgreesWithReference(problem, kHundred);
}

TEST_P(WeightedAttentionTest, WeightsOfOneHaveTheBitsOfNoWeights) {
  AttentionShape shape = Shape(19, 150);
  shape.buffer_capacity = 20;
  AttentionProblem problem(WithDecodeBuffers(shape, 2), 9);
  const Result expected = problem.Run(&SharedContextAttention);
  problem.WeighContext(0, 0, 150, 1);
  const Result actual = problem.Run(&SharedContextAttention);
  EXPECT_THAT(actual.out, TensorBitsEqual(expected.out));
  EXPECT_THAT(actual.lse, TensorBitsEqual(expected.lse));
}

TEST_P(WeightedAttentionTest, AKeyOfWeightTwoIsTheKeyTwice) {
  AttentionProblem weighted(Shape(9, 100), 10);
  const Result expected = weighted.WithKeysTwice(40).Run(&SharedContextAttention);
  weighted.WeighContext(std::log(2.0f), 0, 40, 2);
  const Result actual = weighted.Run(&SharedContextAttention);
  EXPECT_THAT(actual.out, TensorNear(expected.out, kRounding));
  EXPECT_THAT(actual.lse, TensorNear(expected.lse, kLse));
}

TEST_P(WeightedAttentionTest, RowAloneHasTheBitsOfTheRowInABatch) {
  AttentionProblem problem(Shape(19, 150), 11);
  problem.WeighContext(1, 2, 90, 12);
  problem.HideKeys();
  const Result batch = problem.Run(&SharedContextAttention);
  const int64_t stride = problem.out_stride();
  for (int64_t row = 0; row < 19; ++row) {
    const Result alone = problem.Rows(row, 1).Run(&SharedContextAttention);
    EXPECT_THAT(alone.out, TensorBitsEqual(Tensor(batch.out.begin() + row * stride,
                                                  batch.out.begin() + (row + 1) * stride)));
    EXPECT_THAT(alone.lse, TensorBitsEqual(Tensor(batch.lse.begin() + row * 4,
                                                  batch.lse.begin() + row * 4 + 4)));
  }
}

// With a single key, the rows from which it is hidden attend to nothing.
TEST_P(WeightedAttentionTest, TheOnlyKeyHidden) {
  AttentionProblem problem(Shape(8, 1), 13);
  problem.HideKeys();  // for row + head odd: key 0
  const Result result = problem.Run(&SharedContextAttention);
  for (int64_t row = 0; row < 8; ++row) {
    for (int64_t head = 0; head < 4; ++head) {
      const bool hidden = (row + head / 2) % 2 == 1;
      EXPECT_EQ(result.lse[row * 4 + head] == -HUGE_VALF, hidden) << row << " " << head;
      const float out = result.out[row * problem.out_stride() + head * 16];
      EXPECT_EQ(out == 0.0f, hidden) << row << " " << head;
    }
  }
  ExpectAgreesWithReference(problem, kTight);
}

}  // namespace
}  // namespace chorale::kernels
