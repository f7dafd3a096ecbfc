// Runs a test once on every SIMD instruction set of this machine.
#ifndef CHORALE_TESTS_KERNELS_SIMD_TARGETS_H_
#define CHORALE_TESTS_KERNELS_SIMD_TARGETS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/target.h"

namespace chorale::kernels {

// Parameter: the name of the instruction set that the kernels are forced to use.
class SimdTargetTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ForceSimdTargetForTest(GetParam()));
    ASSERT_EQ(SimdTargetName(), GetParam());
  }
  void TearDown() override { ForceSimdTargetForTest(""); }
};

inline std::string SimdTargetParamName(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

#define CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(suite)                                             \
  INSTANTIATE_TEST_SUITE_P(, suite, ::testing::ValuesIn(::chorale::kernels::SimdTargetNames()), \
                           ::chorale::kernels::SimdTargetParamName)

// n numbers from N(0, deviation^2), the same in every run.
inline std::vector<float> RandomTensor(int64_t n, uint32_t seed, float deviation = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> tensor(n);
  for (float& x : tensor) x = normal(engine);
  return tensor;
}

}  // namespace chorale::kernels

#endif  // CHORALE_TESTS_KERNELS_SIMD_TARGETS_H_
