#include "kernels/ops/mixture_head.h"

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
using Doubles = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Head {
  Head(Doubles raw_in, int64_t rows, int64_t components, int64_t raw_stride)
      : mean_bias(components, 0.0f),
        std_bias(components, 0.0f),
        weight_bias(components, 0.0f),
        raw(std::move(raw_in)),
        mean(rows * components, kNan),
        std(rows * components, kNan),
        log_weight(rows * components, kNan) {
    params.rows = rows;
    params.components = components;
    params.raw_stride = raw_stride;
    params.std_min = 0.001f;
    params.std_max = 10.0f;
  }
  void Run(void (*op)(const MixtureHeadParams&)) {
    params.raw = raw.data();
    params.mean_bias = mean_bias.data();
    params.std_bias = std_bias.data();
    params.weight_bias = weight_bias.data();
    params.mean = mean.data();
    params.std = std.data();
    params.log_weight = log_weight.data();
    ASSERT_TRUE(ValidateMixtureHead(params).ok());
    op(params);
  }
  Tensor mean_bias, std_bias, weight_bias;
  Doubles raw, mean, std, log_weight;
  MixtureHeadParams params;
};

using Operation = void (*)(const MixtureHeadParams&);
class MixtureHeadTest : public ::testing::TestWithParam<Operation> {};
INSTANTIATE_TEST_SUITE_P(, MixtureHeadTest,
                         ::testing::Values(&reference::MixtureHead, &MixtureHead),
                         [](const ::testing::TestParamInfo<Operation>& info) {
                           return info.index == 0 ? "Reference" : "Kernel";
                         });

TEST_P(MixtureHeadTest, AgreesWithNumbersWorkedOutByHand) {
  // Component 0: mean 1 + 0.5; softplus(0) = log 2 = 0.693147, plus 0.001.
  // Component 1: mean -2 + 0.25; softplus(1 + 2) = 3.048587, plus 0.001.
  // Logits 0 + 0 and 1 + log 3 - 1: weights 1/4 and 3/4.
  Head head({1, 0, 0, -2, 1, 1}, 1, 2, 6);
  head.mean_bias = {0.5f, 0.25f};
  head.std_bias = {0, 2};
  head.weight_bias = {0, std::log(3.0f) - 1};
  head.Run(GetParam());
  const Tolerance rounding{1e-7, 1e-6};
  EXPECT_THAT(head.mean, TensorNear(Doubles{1.5, -1.75}, rounding));
  EXPECT_THAT(head.std, TensorNear(Doubles{0.694147, 3.049587}, rounding));
  EXPECT_THAT(head.log_weight, TensorNear(Doubles{-1.3862944, -0.2876821}, rounding));
}

TEST_P(MixtureHeadTest, ExtremeInputsStayFinite) {
  // softplus(-200) vanishes: std_min is left. softplus(500) = 500 is capped at std_max = 10.
  // Logits 0 and 1000: log weights -1000 and 0.
  Head head({0, -200, 0, 0, 500, 1000}, 1, 2, 6);
  head.Run(GetParam());
  EXPECT_THAT(head.std, TensorNear(Doubles{0.001, 10.001}, Tolerance{0, 1e-6}));
  EXPECT_THAT(head.log_weight, TensorNear(Doubles{-1000, 0}, Tolerance{0, 1e-6}));
}

TEST_P(MixtureHeadTest, ReadsRowsAtTheirStride) {
  Head head({1, 2, 3, kNan, kNan, 4, 5, 6, kNan, kNan}, 2, 1, 5);
  head.Run(GetParam());
  EXPECT_THAT(head.mean, testing::ElementsAre(1, 4));
  EXPECT_THAT(head.log_weight, testing::ElementsAre(0, 0));
}

TEST(MixtureHeadKernelTest, AgreesWithTheReference) {
  const int64_t rows = 65;
  const int64_t components = 20;
  const Tensor raw = RandomTensor(rows * components * 3, 1, 5.0f);
  Head expected(Doubles(raw.begin(), raw.end()), rows, components, components * 3);
  expected.mean_bias = RandomTensor(components, 2);
  expected.std_bias = RandomTensor(components, 3);
  expected.weight_bias = RandomTensor(components, 4);
  Head actual = expected;
  expected.Run(&reference::MixtureHead);
  actual.Run(&MixtureHead);
  const Tolerance rounding{1e-14, 1e-13};
  EXPECT_THAT(actual.mean, TensorNear(expected.mean, rounding));
  EXPECT_THAT(actual.std, TensorNear(expected.std, rounding));
  EXPECT_THAT(actual.log_weight, TensorNear(expected.log_weight, rounding));
}

}  // namespace
}  // namespace chorale::kernels
