#include "kernels/ops/embed_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

using Tensor = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ReferenceEmbedRowsTest, AgreesWithNumbersWorkedOutByHand) {
  // Row 0: encoding 1 + offset 0 + 2 * weight = [3, 4] + [10, 20] + [0.5, 1] * 2 = [14, 26].
  // Row 1: encoding 0 + offset 1 - 4 * weight = [1, 2] + [30, 40] - [2, 4] = [29, 38].
  const Tensor encodings = {1, 2, 3, 4};
  const Tensor offsets = {10, 20, 30, 40};
  const Tensor y_weight = {0.5f, 1};
  const Tensor y = {2, -4};
  const std::vector<int32_t> encoding = {1, 0};
  const std::vector<int32_t> offset = {0, 1};
  Tensor out(4, kNan);
  EmbedRowsParams p;
  p.encodings = encodings.data();
  p.offsets = offsets.data();
  p.y_weight = y_weight.data();
  p.y = y.data();
  p.encoding = encoding.data();
  p.offset = offset.data();
  p.out = out.data();
  p.rows = 2;
  p.width = 2;
  reference::EmbedRows(p);
  EXPECT_THAT(out, testing::ElementsAre(14.0f, 26.0f, 29.0f, 38.0f));
}

class EmbedRowsTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(EmbedRowsTest);

TEST_P(EmbedRowsTest, AgreesWithTheReferenceWithAndWithoutValues) {
  for (int64_t width : {1, 15, 16, 17, 33, 128}) {
    const int64_t rows = 9;
    const Tensor encodings = RandomTensor(5 * width, 1);
    const Tensor offsets = RandomTensor(3 * width, 2);
    const Tensor y_weight = RandomTensor(width, 3);
    const Tensor y = RandomTensor(rows, 4);
    std::vector<int32_t> encoding;
    std::vector<int32_t> offset;
    for (int32_t r = 0; r < rows; ++r) {
      encoding.push_back((7 * r) % 5);
      offset.push_back(r % 3);
    }
    EmbedRowsParams p;
    p.encodings = encodings.data();
    p.offsets = offsets.data();
    p.encoding = encoding.data();
    p.offset = offset.data();
    p.rows = rows;
    p.width = width;
    for (const bool with_y : {false, true}) {
      p.y = with_y ? y.data() : nullptr;
      p.y_weight = with_y ? y_weight.data() : nullptr;
      Tensor expected(rows * width, kNan);
      p.out = expected.data();
      reference::EmbedRows(p);
      Tensor out(rows * width, kNan);
      p.out = out.data();
      EmbedRows(p);
      EXPECT_THAT(out, TensorNear(expected, Tolerance{1e-6, 1e-6})) << width;
    }
  }
}

}  // namespace
}  // namespace chorale::kernels
