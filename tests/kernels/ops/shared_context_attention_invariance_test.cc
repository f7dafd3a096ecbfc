// What must not change the result of attention: neighbours, capacity, where a key is stored, the
// order of the context, and writing over the queries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/ops/panel_layout.h"
#include "kernels/ops/shared_context_attention.h"
#include "tests/kernels/ops/attention_problem.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

using Tensor = std::vector<float>;
constexpr Tolerance kRounding{3e-6, 5e-6};

class AttentionInvarianceTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(AttentionInvarianceTest);

// Every row, computed alone and with its right neighbour, has the bits it has in the batch.
void ExpectRowsIndependent(const AttentionProblem& problem) {
  const AttentionProblem::Result batch = problem.Run(&SharedContextAttention);
  const int64_t stride = problem.out_stride();
  for (int64_t row = 0; row < problem.shape().rows; ++row) {
    for (int64_t count : {1, 2}) {
      if (row + count > problem.shape().rows) continue;
      SCOPED_TRACE(testing::Message() << "row " << row << ", " << count << " rows");
      const AttentionProblem::Result part = problem.Rows(row, count).Run(&SharedContextAttention);
      EXPECT_THAT(part.out, TensorBitsEqual(Tensor(batch.out.begin() + row * stride,
                                                   batch.out.begin() + (row + count) * stride)));
    }
  }
}

TEST_P(AttentionInvarianceTest, RowAloneHasTheBitsOfTheRowInADecodeTile) {
  for (int64_t kv_heads : {1, 2, 4}) {
    AttentionShape shape;
    shape.rows = 19;
    shape.kv_heads = kv_heads;
    shape.context_rows = 150;
    shape.buffer_capacity = 20;
    ExpectRowsIndependent(AttentionProblem(WithDecodeBuffers(shape, 2), 1));
  }
}

TEST_P(AttentionInvarianceTest, RowAloneHasTheBitsOfTheRowInTeacherForcing) {
  AttentionShape shape;
  shape.heads = shape.kv_heads = 2;
  shape.context_rows = 20;
  shape.buffer_capacity = 18;
  ExpectRowsIndependent(AttentionProblem(WithTeacherForcing(shape, 2, 18), 2));
}

TEST_P(AttentionInvarianceTest, BufferCapacityDoesNotChangeBits) {
  AttentionShape shape;
  shape.rows = 12;
  shape.context_rows = 40;
  shape.buffer_capacity = 20;
  const AttentionProblem problem(WithDecodeBuffers(shape, 2), 3);
  const AttentionProblem::Result tight = problem.Run(&SharedContextAttention);
  for (int64_t capacity : {21, 32, 33, 200}) {
    const auto wide = problem.WithCapacity(capacity).Run(&SharedContextAttention);
    EXPECT_THAT(wide.out, TensorBitsEqual(tight.out)) << capacity;
  }
}

// The keys beyond the context are NaN.
TEST_P(AttentionInvarianceTest, ContextCapacityDoesNotChangeBits) {
  for (int64_t context_rows : {1, 16, 40, 300}) {
    AttentionShape shape;
    shape.rows = 12;
    shape.kv_heads = 2;
    shape.context_rows = context_rows;
    AttentionProblem problem(shape, 3);
    problem.WeighContext(0, 1, context_rows, 9);
    const AttentionProblem::Result tight = problem.Run(&SharedContextAttention);
    for (int64_t spare : {1, 15, 16, 200}) {
      SCOPED_TRACE(testing::Message() << context_rows << " + " << spare);
      const auto wide = problem.WithSpareContextKeys(spare).Run(&SharedContextAttention);
      EXPECT_THAT(wide.out, TensorBitsEqual(tight.out));
      EXPECT_THAT(wide.lse, TensorBitsEqual(tight.lse));
    }
  }
}

TEST_P(AttentionInvarianceTest, SplitIntoContextAndBufferEqualsConcatenated) {
  for (int64_t context_rows : {0, 1, 16, 30, 300}) {
    for (int32_t visible : {0, 1, 16, 21, 140}) {
      if (context_rows + visible == 0) continue;
      SCOPED_TRACE(testing::Message() << context_rows << " + " << visible);
      AttentionShape shape;
      shape.rows = 3;
      shape.context_rows = context_rows;
      shape.buffer_capacity = 140;
      shape.row_path = {0, 0, 0};
      shape.row_visible = {visible, visible, visible};
      const AttentionProblem split(shape, 4);
      const auto actual = split.Run(&SharedContextAttention);
      const auto joined = split.BufferAsContext().Run(&SharedContextAttention);
      EXPECT_THAT(actual.out, TensorNear(joined.out, kRounding));
    }
  }
}

TEST_P(AttentionInvarianceTest, OrderOfTheContextChangesNothingBeyondRounding) {
  AttentionShape shape;
  shape.rows = 9;
  shape.context_rows = 333;
  AttentionProblem problem(shape, 5);
  const auto forwards = problem.Run(&SharedContextAttention);
  problem.ReverseContext();
  const auto backwards = problem.Run(&SharedContextAttention);
  EXPECT_THAT(backwards.out, TensorNear(forwards.out, kRounding));
}

TEST_P(AttentionInvarianceTest, OutMayBeTheQueries) {
  // 70 query rows per K/V head: more than one tile, so a late tile reads q after an early one
  // wrote.
  const int64_t rows = 70;
  const int64_t width = 2 * 16;
  const Tensor q = RandomTensor(rows * width, 1);
  const Tensor keys = RandomTensor(2 * PackedKeysSize(32, 16), 2);
  const Tensor values = RandomTensor(2 * ValuesSize(32, 16), 3);
  SharedContextAttentionParams p;
  p.q = q.data();
  p.context_keys = keys.data();
  p.context_values = values.data();
  p.rows = rows;
  p.heads = p.kv_heads = 2;
  p.head_dim = 16;
  p.context_rows = p.context_capacity = 32;
  p.q_stride = p.out_stride = width;
  p.scale = 0.25f;
  Tensor expected(rows * width);
  p.out = expected.data();
  SharedContextAttention(p);
  Tensor in_place = q;
  p.q = p.out = in_place.data();
  SharedContextAttention(p);
  EXPECT_THAT(in_place, TensorBitsEqual(expected));
}

}  // namespace
}  // namespace chorale::kernels
