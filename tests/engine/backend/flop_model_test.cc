#include "engine/backend/flop_model.h"

#include "gtest/gtest.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

// The first segment has no set yet.
TEST(FlopModelTest, TheCostOfAMemorySetIsProportionalToTheFurtherRows) {
  const ModelConfig config = MakeTestModel({.d_model = 64, .n_layers = 4, .d_ff = 64}).config;
  for (const MemoryPolicy policy :
       {MemoryPolicy::kMerge, MemoryPolicy::kHeavy, MemoryPolicy::kSample}) {
    const auto flops = [&](int64_t segments, int64_t keys) {
      return EncodeFlops(config, {.rows = segments * 1024, .memory = {keys, policy}});
    };
    const double further = flops(3, 256) - flops(2, 256);
    EXPECT_GT(further, 0);
    EXPECT_NEAR(flops(21, 256) - flops(1, 256), 20 * further, 1e-6 * further);
    EXPECT_GT(flops(21, 512), flops(21, 256));
    EXPECT_LT(2 * flops(21, 256), EncodeFlops(config, {.rows = 21 * 1024}));
  }
}

}  // namespace
}  // namespace chorale
