#include "kernels/ops/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

using ::testing::Each;
using Tensor = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

enum class Bias { kNo, kYes };

// A linear map with random numbers and outputs poisoned with NaN, wider than needed.
struct Problem {
  Problem(int64_t rows, int64_t in, int64_t out, Bias with_bias, Activation activation,
          float deviation = 1.0f)
      : x(RandomTensor(rows * (in + 3), 1, deviation)),
        packed(PackedLinearSize(out, in), kNan),
        bias(RandomTensor(out, 3)),
        y(rows * (out + 5), kNan) {
    PackLinearWeight(RandomTensor(out * in, 2).data(), out, in, packed.data());
    params.x = x.data();
    params.weight = packed.data();
    params.bias = with_bias == Bias::kYes ? bias.data() : nullptr;
    params.y = y.data();
    params.rows = rows;
    params.in = in;
    params.out = out;
    params.x_stride = in + 3;
    params.y_stride = out + 5;
    params.activation = activation;
  }

  Tensor Run(void (*linear)(const LinearParams&)) {
    EXPECT_TRUE(ValidateLinear(params).ok()) << ValidateLinear(params);
    y.assign(y.size(), kNan);
    linear(params);
    return y;
  }

  Tensor x, packed, bias, y;
  LinearParams params;
};

TEST(PackLinearWeightTest, PutsSixteenColumnsSideBySideAndPadsWithZeros) {
  // W [17, 2] with W(o, i) = 10 o + i; (16, 1) lies in panel 1, row 1, column 0: (1*2 + 1)*16.
  Tensor weight;
  for (int o = 0; o < 17; ++o) {
    for (int i = 0; i < 2; ++i) weight.push_back(10.0f * o + i);
  }
  Tensor packed(PackedLinearSize(17, 2), kNan);
  ASSERT_EQ(packed.size(), 64u);
  PackLinearWeight(weight.data(), 17, 2, packed.data());
  EXPECT_EQ(packed[0], 0.0f);
  EXPECT_EQ(packed[15], 150.0f);
  EXPECT_EQ(packed[16 + 3], 31.0f);
  EXPECT_EQ(packed[48], 161.0f);
  EXPECT_THAT(Tensor(packed.begin() + 33, packed.begin() + 48), Each(0.0f));
  EXPECT_THAT(Tensor(packed.begin() + 49, packed.end()), Each(0.0f));
}

TEST(ReferenceLinearTest, AgreesWithNumbersWorkedOutByHand) {
  // W = [[1, 2], [3, 4], [0, -1]], b = [0.5, 0, 1], x = [1, 10]:
  //   1*1 + 2*10 + 0.5 = 21.5;  3*1 + 4*10 = 43;  -1*10 + 1 = -9
  const Tensor weight = {1, 2, 3, 4, 0, -1};
  const Tensor bias = {0.5f, 0, 1};
  const Tensor x = {1, 10};
  Tensor packed(PackedLinearSize(3, 2));
  PackLinearWeight(weight.data(), 3, 2, packed.data());
  Tensor y(3, kNan);
  LinearParams p;
  p.x = x.data();
  p.weight = packed.data();
  p.bias = bias.data();
  p.y = y.data();
  p.rows = 1;
  p.in = 2;
  p.out = 3;
  p.x_stride = 2;
  p.y_stride = 3;
  reference::Linear(p);
  EXPECT_THAT(y, testing::ElementsAre(21.5f, 43.0f, -9.0f));
}

TEST(ReferenceLinearTest, GeluAgreesWithTheTableOfTheNormalDistribution) {
  // x Phi(x): Phi(1) = 0.8413447461, Phi(-2) = 0.0227501319, Phi(0.5) = 0.6914624613.
  const Tensor weight = {1};
  const Tensor x = {1, -2, 0.5f, 0};
  Tensor packed(PackedLinearSize(1, 1));
  PackLinearWeight(weight.data(), 1, 1, packed.data());
  Tensor y(4, kNan);
  LinearParams p;
  p.x = x.data();
  p.weight = packed.data();
  p.y = y.data();
  p.rows = 4;
  p.in = p.out = p.x_stride = p.y_stride = 1;
  p.activation = Activation::kGelu;
  reference::Linear(p);
  const Tensor expected = {0.8413447461f, -0.0455002638f, 0.3457312307f, 0.0f};
  EXPECT_THAT(y, TensorNear(expected, Tolerance{1e-8, 1e-7}));
}

class LinearTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(LinearTest);

TEST_P(LinearTest, AgreesWithTheReferenceForRaggedSizes) {
  for (int64_t rows : {1, 2, 7, 8, 9, 63, 64, 65, 100}) {
    for (int64_t in : {1, 3, 16, 100}) {
      for (int64_t out : {1, 15, 16, 17, 31, 32, 33, 60}) {
        const Activation activation = out % 2 == 0 ? Activation::kGelu : Activation::kNone;
        Problem problem(rows, in, out, in % 2 == 0 ? Bias::kYes : Bias::kNo, activation);
        const Tensor expected = problem.Run(&reference::Linear);
        // Sums of up to 100 products of N(0, 1): about 10 in size, half a unit each.
        EXPECT_THAT(problem.Run(&Linear), TensorNear(expected, Tolerance{2e-5, 2e-6}))
            << rows << " x " << in << " -> " << out;
      }
    }
  }
}

TEST_P(LinearTest, AgreesWithTheReferenceForWideLayers) {
  for (int64_t size : {128, 256, 1024}) {
    Problem problem(33, size, size, Bias::kYes, Activation::kNone);
    const Tensor expected = problem.Run(&reference::Linear);
    EXPECT_THAT(problem.Run(&Linear), TensorNear(expected, Tolerance{1e-4, 2e-6})) << size;
  }
}

TEST_P(LinearTest, RowAloneHasTheBitsOfTheRowInABatch) {
  Problem problem(23, 50, 37, Bias::kYes, Activation::kGelu);
  const Tensor batch = problem.Run(&Linear);
  const int64_t y_stride = problem.params.y_stride;
  for (int64_t row = 0; row < 23; ++row) {
    LinearParams alone = problem.params;
    Tensor y(y_stride, kNan);
    alone.rows = 1;
    alone.x += row * alone.x_stride;
    alone.y = y.data();
    Linear(alone);
    EXPECT_THAT(y, TensorBitsEqual(Tensor(batch.begin() + row * y_stride,
                                          batch.begin() + (row + 1) * y_stride)))
        << "row " << row;
  }
}

TEST_P(LinearTest, GeluIsAccurateOverItsWholeRange) {
  // One column of weight 1: y = gelu(x) for x from -12 to 12 in steps of 1/512, and far outside.
  Tensor x;
  for (int i = -6144; i <= 6144; ++i) x.push_back(static_cast<float>(i) / 512);
  x.insert(x.end(), {1e-30f, -1e-30f, 100.0f, -100.0f, 1e20f});
  const Tensor weight = {1};
  Tensor packed(PackedLinearSize(1, 1));
  PackLinearWeight(weight.data(), 1, 1, packed.data());
  LinearParams p;
  p.x = x.data();
  p.weight = packed.data();
  p.rows = static_cast<int64_t>(x.size());
  p.in = p.out = p.x_stride = p.y_stride = 1;
  p.activation = Activation::kGelu;
  Tensor expected(x.size(), kNan);
  p.y = expected.data();
  reference::Linear(p);
  Tensor y(x.size(), kNan);
  p.y = y.data();
  Linear(p);
  // The documented bound (the looser one, without fused multiply-add), element by element.
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(std::abs(y[i] - static_cast<double>(expected[i])), 1.7e-7 * std::abs(x[i]))
        << "x = " << x[i];
  }
}

}  // namespace
}  // namespace chorale::kernels
