// The attention kernel against its float64 reference, and the reference against hand-worked
// numbers. Paddings, unseen keys and outputs are NaN in every problem (attention_problem.h).
#include "kernels/ops/shared_context_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "tests/kernels/ops/attention_problem.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

using Tensor = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Tolerance kTight{2e-6, 4e-6};
// Scores of size 100 carry rounding errors of 100 * 2^-24 = 6e-6 and their sums several of them;
// each moves a softmax weight by that relative amount.
constexpr Tolerance kHundred{1e-4, 1e-4};
constexpr Tolerance kLse{1e-5, 1e-6};

void ExpectAgreesWithReference(const AttentionProblem& problem, const Tolerance& tolerance) {
  const AttentionProblem::Result expected = problem.Run(&reference::SharedContextAttention);
  const AttentionProblem::Result actual = problem.Run(&SharedContextAttention);
  EXPECT_THAT(actual.out, TensorNear(expected.out, tolerance));
  EXPECT_THAT(actual.lse, TensorNear(expected.lse, kLse));
}

// One query head of width 8, one row. Element 0 of q and keys makes the scores, element 0 and 1 of
// the values make the result.
struct HandProblem {
  explicit HandProblem(const std::vector<float>& scores, const std::vector<float>& values0)
      : q(8, 0.0f),
        keys(PackedKeysSize(static_cast<int64_t>(scores.size()), 8), kNan),
        values(scores.size() * 8, 0.0f),
        out(8, kNan) {
    q[0] = 2.0f;
    for (size_t key = 0; key < scores.size(); ++key) {
      for (int d = 0; d < 8; ++d) keys[d * kPanel + key] = d == 0 ? scores[key] : 0.0f;
      values[key * 8] = values0[key];
      values[key * 8 + 1] = 1.0f;
    }
    params.q = q.data();
    params.out = out.data();
    params.rows = params.heads = params.kv_heads = 1;
    params.head_dim = params.q_stride = params.out_stride = 8;
    params.scale = 0.5f;  // times q[0] = 2: a key's element 0 is its score
  }
  Tensor q, keys, values, out;
  float lse = kNan;
  SharedContextAttentionParams params;
};

TEST(ReferenceAttentionTest, AgreesWithNumbersWorkedOutByHand) {
  // exp(s) = 1 and 3, so the weights are 1/4 and 3/4: 8/4 + 16*3/4 = 14; lse = log 4.
  HandProblem hand({0.0f, std::log(3.0f)}, {8.0f, 16.0f});
  hand.params.context_keys = hand.keys.data();
  hand.params.context_values = hand.values.data();
  hand.params.context_rows = hand.params.context_capacity = 2;
  reference::SharedContextAttentionWithLse(hand.params, &hand.lse);
  EXPECT_THAT(hand.out, TensorNear(Tensor{14, 1, 0, 0, 0, 0, 0, 0}, Tolerance{0, 1e-6}));
  EXPECT_NEAR(hand.lse, 1.3862944f, 1e-6);
}

TEST(ReferenceAttentionTest, ContextAndVisibleBufferKeysAreOneSet) {
  // The context key has exp(s) = 1, the buffer keys 3 and 1; the second one is not visible, so
  // again (1 * 8 + 3 * 16) / 4 = 14. With both: (8 + 48 + 100) / 5 = 31.2, lse = log 5.
  HandProblem context({0.0f}, {8.0f});
  HandProblem buffer({std::log(3.0f), 0.0f}, {16.0f, 100.0f});
  const int32_t path = 0;
  int32_t visible = 1;
  SharedContextAttentionParams& p = context.params;
  p.context_keys = context.keys.data();
  p.context_values = context.values.data();
  p.context_rows = p.context_capacity = 1;
  p.buffer_keys = buffer.keys.data();
  p.buffer_values = buffer.values.data();
  p.buffer_capacity = 2;
  p.buffer_path_stride = 1000;
  p.row_path = &path;
  p.row_visible = &visible;
  reference::SharedContextAttentionWithLse(p, &context.lse);
  EXPECT_NEAR(context.out[0], 14.0f, 1e-5);
  EXPECT_NEAR(context.lse, 1.3862944f, 1e-6);
  visible = 2;
  reference::SharedContextAttentionWithLse(p, &context.lse);
  EXPECT_NEAR(context.out[0], 31.2f, 1e-5);
  EXPECT_NEAR(context.lse, 1.6094379f, 1e-6);
}

TEST(ReferenceAttentionTest, NoKeyGivesZeroAndMinusInfinity) {
  HandProblem hand({0.0f}, {8.0f});
  reference::SharedContextAttentionWithLse(hand.params, &hand.lse);
  EXPECT_THAT(hand.out, testing::Each(0.0f));
  EXPECT_EQ(hand.lse, -HUGE_VALF);
}

class AttentionTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(AttentionTest);

TEST_P(AttentionTest, RaggedRowsAndContextsWithBuffers) {
  for (int64_t rows : {1, 2, 7, 8, 9, 63, 64, 65}) {
    for (int64_t context_rows : {0, 1, 15, 16, 17, 100, 255, 256, 257}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, context " << context_rows);
      AttentionShape shape;
      shape.rows = rows;
      shape.heads = shape.kv_heads = 2;
      shape.head_dim = 16;
      shape.context_rows = context_rows;
      shape.buffer_capacity = 20;
      ExpectAgreesWithReference(AttentionProblem(WithDecodeBuffers(shape, 2), 1), kTight);
    }
  }
}

TEST_P(AttentionTest, EveryHeadWidthAndGrouping) {
  for (int64_t head_dim : {8, 16, 32, 64, 128}) {
    for (int64_t kv_heads : {1, 2, 4}) {
      for (int64_t context_rows : {0, 1, 133}) {
        SCOPED_TRACE(testing::Message()
                     << "Dh " << head_dim << ", Hkv " << kv_heads << ", context " << context_rows);
        AttentionShape shape;
        shape.rows = 21;
        shape.kv_heads = kv_heads;
        shape.head_dim = head_dim;
        shape.context_rows = context_rows;
        shape.buffer_capacity = 35;
        ExpectAgreesWithReference(AttentionProblem(WithDecodeBuffers(shape, 2), 2), kTight);
      }
    }
  }
}

TEST_P(AttentionTest, LongContextWithoutBuffer) {
  AttentionShape shape;
  shape.rows = 10;
  shape.context_rows = 1000;
  ExpectAgreesWithReference(AttentionProblem(shape, 3), kTight);
}

TEST_P(AttentionTest, BufferLongerThanABlock) {
  for (int64_t head_dim : {16, 128}) {
    AttentionShape shape;
    shape.rows = 7;
    shape.head_dim = head_dim;
    shape.context_rows = 5;
    shape.buffer_capacity = 300;
    shape.row_path = {0, 0, 0, 1, 1, 4, 4};
    shape.row_visible = {1, 150, 300, 129, 128, 257, 0};
    ExpectAgreesWithReference(AttentionProblem(shape, 4), kTight);
  }
}

TEST_P(AttentionTest, TeacherForcingEveryRowWithItsOwnPrefix) {
  for (int64_t query_rows : {1, 3, 17, 33}) {
    for (int64_t kv_heads : {1, 4}) {
      SCOPED_TRACE(testing::Message() << query_rows << " query rows, Hkv " << kv_heads);
      AttentionShape shape;
      shape.kv_heads = kv_heads;
      shape.context_rows = 19;
      shape.buffer_capacity = query_rows;
      ExpectAgreesWithReference(AttentionProblem(WithTeacherForcing(shape, 3, query_rows), 5),
                                kTight);
    }
  }
}

TEST_P(AttentionTest, ScoresUpToAHundredAreNotClamped) {
  for (int64_t context_rows : {2, 100, 700}) {
    AttentionShape shape;
    shape.rows = 9;
    shape.context_rows = context_rows;
    AttentionProblem problem(shape, 6);
    problem.ScaleScores(100);
    ExpectAgreesWithReference(problem, kHundred);
  }
}

TEST_P(AttentionTest, ContextAndBufferMaximaSixtyApartInBothDirections) {
  for (const auto& [context, buffer] : std::vector<std::pair<float, float>>{
           {30, -30}, {-30, 30}, {100, 40}, {40, 100}, {-40, -100}, {-100, -40}, {0, 300}}) {
    SCOPED_TRACE(testing::Message() << "context " << context << ", buffer " << buffer);
    AttentionShape shape;
    shape.rows = 12;
    shape.context_rows = 50;
    shape.buffer_capacity = 20;
    AttentionProblem problem(WithDecodeBuffers(shape, 2), 7);
    problem.OffsetScores(context, buffer);
    ExpectAgreesWithReference(problem, kHundred);
  }
}

TEST_P(AttentionTest, RowsWithoutAnyKeyAreZeroAmongRowsThatHaveSome) {
  AttentionShape shape;
  shape.rows = 5;
  shape.heads = shape.kv_heads = 1;
  shape.buffer_capacity = 4;
  shape.row_path = {0, 0, 1, 1, 2};
  shape.row_visible = {0, 3, 0, 0, 1};
  const AttentionProblem problem(shape, 8);
  const AttentionProblem::Result result = problem.Run(&SharedContextAttention);
  for (int64_t row : {0, 2, 3}) {
    for (int64_t d = 0; d < 32; ++d) EXPECT_EQ(result.out[row * problem.out_stride() + d], 0.0f);
  }
  ExpectAgreesWithReference(problem, kTight);
}

}  // namespace
}  // namespace chorale::kernels
