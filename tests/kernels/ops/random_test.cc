#include "kernels/ops/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace chorale::kernels {
namespace {

using ::testing::ElementsAre;

// Known answers for philox4x32-10, published with the algorithm. RandomBlock's counter words are
// (path low, step, path high, stream); its key words are the low and the high word of the seed.
TEST(RandomBlockTest, AgreesWithThePublishedAnswerForZeros) {
  EXPECT_THAT(RandomBlock(0, 0, 0, static_cast<RandomStream>(0)),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
}

TEST(RandomBlockTest, AgreesWithThePublishedAnswerForOnes) {
  EXPECT_THAT(RandomBlock(~uint64_t{0}, ~uint64_t{0}, ~uint32_t{0},
                          static_cast<RandomStream>(~uint32_t{0})),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
}

TEST(RandomBlockTest, AgreesWithThePublishedAnswerForDigitsOfPi) {
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
  EXPECT_THAT(RandomBlock(0x299f31d0a4093822u, 0x13198a2e243f6a88u, 0x85a308d3u,
                          static_cast<RandomStream>(0x03707344u)),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(DrawStepTest, IsTheDocumentedFunctionOfTheBlock) {
  const std::array<uint32_t, 4> words = RandomBlock(7, 8, 9, RandomStream::kSample);
  const StepDraw draw = DrawStep(7, 8, 9);
  const double high = words[1] / 4294967296.0;
  EXPECT_NEAR(draw.uniform, high + words[0] / 18446744073709551616.0, 1e-15);
  const double u = (words[2] + 1.0) / 4294967296.0;
  const double angle = 2 * 3.14159265358979323846 * words[3] / 4294967296.0;
  EXPECT_NEAR(draw.normal, std::sqrt(-2 * std::log(u)) * std::cos(angle), 1e-14);
}

TEST(DrawStepTest, DependsOnSeedPathAndStep) {
  const StepDraw base = DrawStep(1, 2, 3);
  EXPECT_EQ(base.uniform, DrawStep(1, 2, 3).uniform);
  for (const StepDraw& other :
       {DrawStep(2, 2, 3), DrawStep(1, 3, 3), DrawStep(1, 2, 4),
        DrawStep(uint64_t{1} << 32 | 1, 2, 3), DrawStep(1, uint64_t{1} << 32 | 2, 3)}) {
    EXPECT_NE(base.uniform, other.uniform);
    EXPECT_NE(base.normal, other.normal);
  }
}

TEST(DrawStepTest, MomentsAreThoseOfUniformAndNormal) {
  constexpr int kDraws = 200000;
  double uniform = 0;
  double uniform2 = 0;
  double product = 0;
  std::array<double, 5> power{};
  for (int i = 0; i < kDraws; ++i) {
    const StepDraw draw = DrawStep(42, i % 1000, i / 1000);
    ASSERT_GE(draw.uniform, 0.0);
    ASSERT_LT(draw.uniform, 1.0);
    ASSERT_TRUE(std::isfinite(draw.normal));
    uniform += draw.uniform;
    uniform2 += draw.uniform * draw.uniform;
    product += (draw.uniform - 0.5) * draw.normal;
    for (int k = 1; k <= 4; ++k) power[k] += std::pow(draw.normal, k);
  }
  // Five standard errors each: of u 0.289, u^2 0.298, z 1, z^2 sqrt 2, z^3 sqrt 15, z^4 sqrt 96.
  const double error = 5 / std::sqrt(static_cast<double>(kDraws));
  EXPECT_NEAR(uniform / kDraws, 1.0 / 2, 0.289 * error);
  EXPECT_NEAR(uniform2 / kDraws, 1.0 / 3, 0.298 * error);
  EXPECT_NEAR(product / kDraws, 0.0, 0.289 * error);
  EXPECT_NEAR(power[1] / kDraws, 0.0, 1.0 * error);
  EXPECT_NEAR(power[2] / kDraws, 1.0, 1.42 * error);
  EXPECT_NEAR(power[3] / kDraws, 0.0, 3.88 * error);
  EXPECT_NEAR(power[4] / kDraws, 3.0, 9.8 * error);
}

TEST(DrawOrderTest, IsAPermutationAndAFunctionOfSeedAndPath) {
  for (int64_t n : {0, 1, 2, 3, 32, 1000}) {
    std::vector<int32_t> order(n, -1);
    DrawOrder(5, 6, n, order.data());
    std::vector<int32_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int32_t> identity(n);
    std::iota(identity.begin(), identity.end(), 0);
    EXPECT_EQ(sorted, identity);
    std::vector<int32_t> again(n, -1);
    DrawOrder(5, 6, n, again.data());
    EXPECT_EQ(order, again);
  }
  std::vector<int32_t> a(32);
  std::vector<int32_t> b(32);
  DrawOrder(5, 6, 32, a.data());
  DrawOrder(5, 7, 32, b.data());
  EXPECT_NE(a, b);
}

TEST(DrawOrderTest, TheEndOfAnOrderIsThatOfTheWholeOrder) {
  for (int64_t n : {1, 2, 100}) {
    std::vector<int32_t> whole(n);
    DrawOrder(5, 6, n, whole.data());
    for (int64_t count : {int64_t{0}, int64_t{1}, n / 2, n - 1, n}) {
      std::vector<int32_t> order(n, -1);
      DrawEndOfOrder(5, 6, n, count, order.data());
      EXPECT_TRUE(std::equal(order.end() - count, order.end(), whole.end() - count))
          << count << " of " << n;
      EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), whole.begin()));
    }
  }
}

TEST(DrawOrderTest, AllOrdersOfFourAreEquallyLikely) {
  constexpr int kDraws = 24000;
  std::map<std::vector<int32_t>, int> counts;
  for (int path = 0; path < kDraws; ++path) {
    std::vector<int32_t> order(4);
    DrawOrder(11, path, 4, order.data());
    ++counts[order];
  }
  ASSERT_EQ(counts.size(), 24u);
  double chi_square = 0;
  for (const auto& [order, count] : counts) {
    const double difference = count - kDraws / 24.0;
    chi_square += difference * difference / (kDraws / 24.0);
  }
  // 23 degrees of freedom: above 52 with probability 5e-4, below 6 with probability 1e-4.
  EXPECT_LT(chi_square, 52);
  EXPECT_GT(chi_square, 6);
}

}  // namespace
}  // namespace chorale::kernels
