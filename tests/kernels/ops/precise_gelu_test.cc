#include "kernels/ops/precise_gelu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<float> GeluOf(void (*op)(const PreciseGeluParams&), const std::vector<double>& x) {
  std::vector<float> y(x.size(), std::numeric_limits<float>::quiet_NaN());
  const PreciseGeluParams params = {
      .x = x.data(), .y = y.data(), .n = static_cast<int64_t>(x.size())};
  EXPECT_TRUE(ValidatePreciseGelu(params).ok());
  op(params);
  return y;
}

class PreciseGeluTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(PreciseGeluTest);

// Phi(1) = 0.8413447461, Phi(-2) = 0.0227501319, Phi(0.5) = 0.6914624613, Phi(-8) = 6.22096e-16.
TEST_P(PreciseGeluTest, AgreesWithTheTableOfTheNormalDistribution) {
  const std::vector<float> expected = {0.8413447461f, -0.0455002638f, 0.3457312307f, -4.976769e-15f,
                                       0.0f};
  for (auto op : {&reference::PreciseGelu, &PreciseGelu}) {
    EXPECT_THAT(GeluOf(op, {1, -2, 0.5, -8, 0}), TensorNear(expected, Tolerance{0, 2e-7}));
  }
}

TEST_P(PreciseGeluTest, FarOutItIsZeroOrTheNumberItself) {
  const std::vector<double> x = {20, 1e30, kInfinity, -20, -1e30, -1e300, -kInfinity, kNan};
  const std::vector<float> expected = {20, 1e30f, std::numeric_limits<float>::infinity(), 0, 0,
                                       0,  0,     std::numeric_limits<float>::quiet_NaN()};
  for (auto op : {&reference::PreciseGelu, &PreciseGelu}) {
    EXPECT_THAT(GeluOf(op, x), TensorNear(expected, Tolerance{}));
  }
}

// A float32 shows little of the float64 that was rounded to it, but among a million numbers some
// lie so close to where rounding changes that a relative error above 1e-12 moves them: each must be
// what a number within that distance rounds to.
TEST_P(PreciseGeluTest, IsPreciseOverItsWholeRange) {
  constexpr double kPrecision = 1e-12;
  std::vector<double> x;
  for (int i = -500'000; i <= 500'000; ++i) x.push_back(i * (14.5 / 500'000) + 1e-7 * (i % 97));
  for (int e = -300; e < 0; ++e) x.insert(x.end(), {std::ldexp(1.1, e), -std::ldexp(1.1, e)});
  const std::vector<float> y = GeluOf(&PreciseGelu, x);
  int undecided = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = x[i] * (std::erfc(-x[i] / std::numbers::sqrt2) / 2);
    const auto a = static_cast<float>(exact * (1 - kPrecision));
    const auto b = static_cast<float>(exact * (1 + kPrecision));
    undecided += a != b;
    ASSERT_TRUE(y[i] >= std::min(a, b) && y[i] <= std::max(a, b))
        << "x = " << x[i] << ": " << y[i] << ", expected " << exact;
  }
  // Nearly all results are unambiguous; a few are this close to a rounding boundary.
  EXPECT_LT(undecided, 100);
  EXPECT_GT(undecided, 0);
}

TEST_P(PreciseGeluTest, ANumberAloneHasTheSameBitsAsAmongOthers) {
  std::vector<double> x;
  for (const float value : RandomTensor(70, 1, 3)) x.push_back(value);
  const std::vector<float> together = GeluOf(&PreciseGelu, x);
  for (size_t n = 1; n <= x.size(); ++n) {
    const std::vector<double> some(x.end() - static_cast<std::ptrdiff_t>(n), x.end());
    const std::vector<float> expected(together.end() - static_cast<std::ptrdiff_t>(n),
                                      together.end());
    EXPECT_THAT(GeluOf(&PreciseGelu, some), TensorBitsEqual(expected)) << n;
  }
}

TEST(ValidatePreciseGeluTest, NamesTheField) {
  double x = 0;
  float y = 0;
  EXPECT_TRUE(ValidatePreciseGelu({.x = &x, .y = &y, .n = 1}).ok());
  EXPECT_THAT(ValidatePreciseGelu({.y = &y, .n = 1}).message(), testing::HasSubstr("x is null"));
  EXPECT_THAT(ValidatePreciseGelu({.x = &x, .n = 1}).message(), testing::HasSubstr("y is null"));
  EXPECT_THAT(ValidatePreciseGelu({.x = &x, .y = &y}).message(), testing::HasSubstr("n is 0"));
}

}  // namespace
}  // namespace chorale::kernels
