#include "tests/kernels/tensor_matchers.h"

#include <gtest/gtest.h>

namespace chorale::kernels {
namespace {

using ::testing::Not;
using Tensor = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(TensorNearTest, AllowsAbsoluteAndRelativeDifferences) {
  const Tensor expected = {1.0f, 100.0f};
  EXPECT_THAT((Tensor{1.05f, 100.05f}), TensorNear(expected, Tolerance{0.06, 0}));
  EXPECT_THAT((Tensor{1.05f, 105.0f}), TensorNear(expected, Tolerance{0, 0.06}));
  EXPECT_THAT((Tensor{1.0f, 100.5f}), Not(TensorNear(expected, Tolerance{0.06, 0})));
  EXPECT_THAT((Tensor{1.1f, 100.0f}), Not(TensorNear(expected, Tolerance{0, 0.06})));
}

TEST(TensorNearTest, OneWrongElementAmongManyIsFound) {
  Tensor expected(10000, 1.0f);
  Tensor actual = expected;
  actual[7777] = 1.5f;
  ::testing::StringMatchResultListener listener;
  EXPECT_FALSE(
      ::testing::ExplainMatchResult(TensorNear(expected, Tolerance{1e-3, 0}), actual, &listener));
  EXPECT_THAT(listener.str(), ::testing::HasSubstr("index 7777"));
}

TEST(TensorNearTest, NanAndInfinityMustBeInTheSamePlaces) {
  const Tolerance huge{1e30, 1e30};
  EXPECT_THAT((Tensor{kNan, kInf, -kInf}), TensorNear(Tensor{kNan, kInf, -kInf}, huge));
  EXPECT_THAT((Tensor{kNan}), Not(TensorNear(Tensor{0.0f}, huge)));
  EXPECT_THAT((Tensor{0.0f}), Not(TensorNear(Tensor{kNan}, huge)));
  EXPECT_THAT((Tensor{kInf}), Not(TensorNear(Tensor{-kInf}, huge)));
  EXPECT_THAT((Tensor{0.0f}), Not(TensorNear(Tensor{-kInf}, huge)));
}

TEST(TensorNearTest, SizesMustAgree) {
  EXPECT_THAT((Tensor{1.0f}), Not(TensorNear(Tensor{1.0f, 1.0f}, Tolerance{1, 1})));
}

TEST(TensorBitsEqualTest, TellsZeroFromMinusZero) {
  EXPECT_THAT((Tensor{0.0f, kNan}), TensorBitsEqual(Tensor{0.0f, kNan}));
  EXPECT_THAT((Tensor{0.0f}), Not(TensorBitsEqual(Tensor{-0.0f})));
}

}  // namespace
}  // namespace chorale::kernels
