#include "kernels/ops/layer_norm.h"

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

LayerNormParams MakeParams(const Tensor& x, const Tensor& gamma, const Tensor& beta, Tensor& y) {
  LayerNormParams p;
  p.x = x.data();
  p.gamma = gamma.data();
  p.beta = beta.data();
  p.y = y.data();
  p.width = static_cast<int64_t>(gamma.size());
  p.rows = static_cast<int64_t>(x.size()) / p.width;
  return p;
}

TEST(ReferenceLayerNormTest, AgreesWithNumbersWorkedOutByHand) {
  // z = x + residual = [1, 2, 3, 6]; mean 3, deviations [-2, -1, 0, 3], variance 14/4 = 3.5;
  // with epsilon 0.5 the divisor is 2: [-1, -0.5, 0, 1.5], times 2 plus 1: [-1, 0, 1, 4].
  const Tensor x = {1, 1, 1, 1};
  const Tensor residual = {0, 1, 2, 5};
  const Tensor gamma(4, 2.0f);
  const Tensor beta(4, 1.0f);
  Tensor y(4, kNan);
  LayerNormParams p = MakeParams(x, gamma, beta, y);
  p.residual = residual.data();
  p.epsilon = 0.5f;
  reference::LayerNorm(p);
  EXPECT_THAT(y, testing::ElementsAre(-1.0f, 0.0f, 1.0f, 4.0f));
}

class LayerNormTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(LayerNormTest);

TEST_P(LayerNormTest, AgreesWithTheReferenceForRaggedWidths) {
  for (int64_t width : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 100, 128, 1024}) {
    const int64_t rows = 9;
    const Tensor x = RandomTensor(rows * width, 1, 3.0f);
    const Tensor residual = RandomTensor(rows * width, 2);
    const Tensor gamma = RandomTensor(width, 3);
    const Tensor beta = RandomTensor(width, 4);
    Tensor expected(rows * width, kNan);
    LayerNormParams p = MakeParams(x, gamma, beta, expected);
    if (width % 2 == 1) p.residual = residual.data();
    reference::LayerNorm(p);
    Tensor y(rows * width, kNan);
    p.y = y.data();
    LayerNorm(p);
    EXPECT_THAT(y, TensorNear(expected, Tolerance{2e-6, 2e-6})) << "width " << width;
  }
}

TEST_P(LayerNormTest, RowsFarFromZeroDoNotCancel) {
  // A variance of 1 around a mean of 1000: float32 represents 1000 to 6e-5, which bounds the
  // accuracy.
  const int64_t width = 128;
  Tensor x = RandomTensor(width, 1);
  for (float& value : x) value += 1000.0f;
  const Tensor gamma(width, 1.0f);
  const Tensor beta(width, 0.0f);
  Tensor expected(width, kNan);
  LayerNormParams p = MakeParams(x, gamma, beta, expected);
  reference::LayerNorm(p);
  Tensor y(width, kNan);
  p.y = y.data();
  LayerNorm(p);
  EXPECT_THAT(y, TensorNear(expected, Tolerance{2e-4, 0}));
}

TEST_P(LayerNormTest, SmallDeviationsFarFromZeroKeepTheirVariance) {
  // Neighbouring float32 numbers around 2^20: exact in float64, so nothing may be lost.
  const int64_t width = 100;
  Tensor x(width);
  for (int64_t i = 0; i < width; ++i) x[i] = 1048576.0f + 0.125f * static_cast<float>(i * i % 7);
  const Tensor gamma(width, 1.0f);
  const Tensor beta(width, 0.0f);
  Tensor expected(width, kNan);
  LayerNormParams p = MakeParams(x, gamma, beta, expected);
  reference::LayerNorm(p);
  Tensor y(width, kNan);
  p.y = y.data();
  LayerNorm(p);
  EXPECT_THAT(y, TensorNear(expected, Tolerance{2e-6, 2e-6}));
}

TEST_P(LayerNormTest, MayWriteOverItsInputs) {
  const int64_t width = 40;
  Tensor x = RandomTensor(3 * width, 1);
  Tensor residual = RandomTensor(3 * width, 2);
  const Tensor gamma = RandomTensor(width, 3);
  const Tensor beta = RandomTensor(width, 4);
  Tensor expected(3 * width, kNan);
  LayerNormParams p = MakeParams(x, gamma, beta, expected);
  p.residual = residual.data();
  LayerNorm(p);
  Tensor over_x = x;
  p.x = p.y = over_x.data();
  LayerNorm(p);
  EXPECT_THAT(over_x, TensorBitsEqual(expected));
  p.x = x.data();
  p.y = residual.data();
  LayerNorm(p);
  EXPECT_THAT(residual, TensorBitsEqual(expected));
}

TEST_P(LayerNormTest, RowAloneHasTheBitsOfTheRowInABatch) {
  const int64_t width = 50;
  const Tensor x = RandomTensor(7 * width, 1);
  const Tensor gamma = RandomTensor(width, 3);
  const Tensor beta = RandomTensor(width, 4);
  Tensor batch(7 * width, kNan);
  LayerNormParams p = MakeParams(x, gamma, beta, batch);
  LayerNorm(p);
  for (int64_t row = 0; row < 7; ++row) {
    Tensor y(width, kNan);
    LayerNormParams alone = p;
    alone.x += row * width;
    alone.y = y.data();
    alone.rows = 1;
    LayerNorm(alone);
    EXPECT_THAT(
        y, TensorBitsEqual(Tensor(batch.begin() + row * width, batch.begin() + (row + 1) * width)));
  }
}

}  // namespace
}  // namespace chorale::kernels
