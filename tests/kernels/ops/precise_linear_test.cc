#include "kernels/ops/precise_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/ops/linear.h"
#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Problem {
  Problem(int64_t rows, int64_t in, int64_t out, std::vector<float> x_in,
          const std::vector<float>& weight, std::vector<float> bias_in)
      : x(std::move(x_in)),
        packed(PackedLinearSize(out, in)),
        bias(std::move(bias_in)),
        y(rows * (out + 2), kNan) {
    PackLinearWeight(weight.data(), out, in, packed.data());
    params = {.x = x.data(),
              .weight = packed.data(),
              .bias = bias.data(),
              .y = y.data(),
              .rows = rows,
              .in = in,
              .out = out,
              .x_stride = in,
              .y_stride = out + 2};
  }
  std::vector<double> Run(void (*op)(const PreciseLinearParams&)) {
    EXPECT_TRUE(ValidatePreciseLinear(params).ok());
    y.assign(y.size(), kNan);
    op(params);
    return y;
  }
  std::vector<float> x, packed, bias;
  std::vector<double> y;
  PreciseLinearParams params;
};

Problem RandomProblem(int64_t rows, int64_t in, int64_t out) {
  return Problem(rows, in, out, RandomTensor(rows * in, 1), RandomTensor(out * in, 2),
                 RandomTensor(out, 3));
}

class PreciseLinearTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(PreciseLinearTest);

// y_0 = 1*3 + 2*4 + 0.5 = 11.5, y_1 = 1*5 + 2*6 - 1 = 16; then two columns that are not written.
// In float32, 2^24 + 1 would be 2^24.
TEST_P(PreciseLinearTest, AgreesWithNumbersWorkedOutByHand) {
  for (auto op : {&reference::PreciseLinear, &PreciseLinear}) {
    Problem small(1, 2, 2, {1, 2}, {3, 4, 5, 6}, {0.5f, -1});
    EXPECT_THAT(small.Run(op), TensorNear(std::vector<double>{11.5, 16, kNan, kNan}, Tolerance{}));
    Problem large(1, 2, 1, {1, 1}, {0x1p24f, 1}, {0x1p-20f});
    EXPECT_EQ(large.Run(op)[0], 0x1p24 + 1 + 0x1p-20);
  }
}

TEST_P(PreciseLinearTest, AgreesWithTheReferenceOverRaggedSizes) {
  for (int64_t rows : {1, 3, 4, 5, 33}) {
    for (int64_t out : {1, 15, 16, 17, 60}) {
      Problem problem = RandomProblem(rows, 37, out);
      const std::vector<double> expected = problem.Run(&reference::PreciseLinear);
      EXPECT_THAT(problem.Run(&PreciseLinear), TensorNear(expected, Tolerance{1e-13, 1e-13}))
          << rows << " rows, " << out << " columns";
    }
  }
}

TEST_P(PreciseLinearTest, ARowAloneHasTheSameBitsAsInABatch) {
  Problem problem = RandomProblem(9, 64, 20);
  const std::vector<double> together = problem.Run(&PreciseLinear);
  for (int64_t row = 0; row < 9; ++row) {
    Problem alone = RandomProblem(9, 64, 20);
    alone.params.x += row * 64;
    alone.params.rows = 1;
    const std::vector<double> y = alone.Run(&PreciseLinear);
    for (int64_t o = 0; o < 20; ++o) EXPECT_EQ(y[o], together[row * 22 + o]);
  }
}

TEST(ValidatePreciseLinearTest, NamesTheField) {
  Problem problem = RandomProblem(2, 3, 4);
  PreciseLinearParams p = problem.params;
  p.bias = nullptr;
  EXPECT_THAT(ValidatePreciseLinear(p).message(), testing::HasSubstr("bias"));
  p = problem.params;
  p.y_stride = 3;
  EXPECT_THAT(ValidatePreciseLinear(p).message(), testing::HasSubstr("y_stride"));
}

}  // namespace
}  // namespace chorale::kernels
