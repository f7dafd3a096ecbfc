#include "kernels/ops/cell_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

using Tensor = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ReferenceCellFeaturesTest, AgreesWithNumbersWorkedOutByHand) {
  // Row 0: 0.5. Row 1: missing. Row 2: -(3 + e - 1), which is clipped to -(3 + log e) = -4.
  const float far = -3.0f - static_cast<float>(std::exp(1.0) - 1.0);
  const Tensor values = {0.5f, 7.0f, far};
  const std::vector<uint8_t> missing = {0, 1, 0};
  Tensor out(3 * kCellFeatures, kNan);
  CellFeaturesParams p;
  p.values = values.data();
  p.missing = missing.data();
  p.out = out.data();
  p.rows = 3;
  p.value_stride = 1;
  p.categorical = 1;
  reference::CellFeatures(p);
  EXPECT_FLOAT_EQ(out[0], 0.5f);
  EXPECT_NEAR(out[1], 0.479425539, 1e-7);   // sin 0.5
  EXPECT_NEAR(out[2], 0.841470985, 1e-7);   // sin 1
  EXPECT_NEAR(out[7], 0.551426681, 1e-7);   // sin 32
  EXPECT_NEAR(out[8], 0.877582562, 1e-7);   // cos 0.5
  EXPECT_NEAR(out[14], 0.834223361, 1e-7);  // cos 32
  EXPECT_EQ(out[15], 0);
  EXPECT_EQ(out[16], 1);
  for (int64_t f = 0; f < kNumberFeatures; ++f) EXPECT_EQ(out[kCellFeatures + f], 0) << f;
  EXPECT_EQ(out[kCellFeatures + 15], 1);
  EXPECT_EQ(out[kCellFeatures + 16], 1);
  EXPECT_NEAR(out[2 * kCellFeatures], -4, 1e-6);
  EXPECT_NEAR(out[2 * kCellFeatures + 1], 0.756802495, 1e-6);  // sin -4
}

class CellFeaturesTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(CellFeaturesTest);

TEST_P(CellFeaturesTest, AgreesWithTheReference) {
  for (const int64_t rows : {1, 3, 63, 64, 65, 200}) {
    const int64_t stride = 5;
    Tensor values = RandomTensor(rows * stride, 1);
    for (int64_t i = 0; i < rows; ++i) values[i * stride] *= static_cast<float>(1 << (i % 8));
    values[0] = 1e4f;
    Tensor y = RandomTensor(rows, 2);
    y[rows - 1] = -3.0f;
    std::vector<uint8_t> missing(rows * stride);
    for (int64_t i = 0; i < rows; i += 3) missing[i * stride] = 1;
    missing[0] = 0;
    CellFeaturesParams p;
    p.values = values.data();
    p.rows = rows;
    p.value_stride = stride;
    for (const bool with_missing : {false, true}) {
      for (const bool with_y : {false, true}) {
        p.missing = with_missing ? missing.data() : nullptr;
        p.y = with_y ? y.data() : nullptr;
        p.categorical = with_y ? 1 : 0;
        Tensor expected(rows * p.width(), kNan);
        p.out = expected.data();
        reference::CellFeatures(p);
        Tensor out(rows * p.width(), kNan);
        p.out = out.data();
        CellFeatures(p);
        // The clipped number is rounded before it is multiplied by frequencies up to 64.
        EXPECT_THAT(out, TensorNear(expected, Tolerance{1e-4, 1e-6})) << rows;
      }
    }
  }
}

TEST_P(CellFeaturesTest, ACellAloneIsTheSameAsAmongOthers) {
  const int64_t rows = 150;
  const Tensor values = RandomTensor(rows, 3);
  Tensor together(rows * kCellFeatures, kNan);
  CellFeaturesParams p;
  p.values = values.data();
  p.out = together.data();
  p.rows = rows;
  p.value_stride = 1;
  CellFeatures(p);
  for (int64_t row = 0; row < rows; ++row) {
    Tensor alone(kCellFeatures, kNan);
    p.values = &values[row];
    p.out = alone.data();
    p.rows = 1;
    CellFeatures(p);
    for (int64_t f = 0; f < kCellFeatures; ++f) {
      ASSERT_EQ(alone[f], together[row * kCellFeatures + f]) << row << " " << f;
    }
  }
}

}  // namespace
}  // namespace chorale::kernels
