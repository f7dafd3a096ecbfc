#include "kernels/ops/softmax_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace chorale::kernels {
namespace {

TEST(SoftmaxStateTest, FlushedTermsAreInvisibleInFloat32) {
  // exp(-87) is 1.6e-38, against half a unit in the last place of 1: 6e-8.
  EXPECT_EQ(1.0f + std::exp(kFlushToZero), 1.0f);
  EXPECT_GT(std::exp(kFlushToZero), std::numeric_limits<float>::min());
}

}  // namespace
}  // namespace chorale::kernels
