#include "engine/context/context_bytes.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

constexpr int64_t kTokenBytes = 16 * sizeof(float);

int64_t TokensOf(const ContextShape& shape) {
  ModelConfig config;
  config.d_model = 16;
  const int64_t bytes = EncodingTokenBytes(config, shape);
  EXPECT_EQ(bytes % kTokenBytes, 0);
  return bytes / kTokenBytes;
}

TEST(ContextBytesTest, AnEncodingHoldsTheTokensOfAllRows) {
  EXPECT_EQ(TokensOf({.rows = 100}), 2 * 100);
  EXPECT_EQ(TokensOf({.rows = 100, .memory = {.rows = 100}}), 2 * 100);
}

TEST(ContextBytesTest, AnEncodingOfAMemorySetHoldsASegment) {
  EXPECT_EQ(TokensOf({.rows = 100, .memory = {.rows = 64}}), 100 + 2 * 100)
      << "rows and keys of the only segment";
  EXPECT_EQ(TokensOf({.rows = 100'000, .memory = {.rows = 64}}), 1024 + 2 * (64 + 1024));
  EXPECT_EQ(TokensOf({.rows = 100'000, .memory = {.rows = 3000}}), 1536 + 2 * (3000 + 1536));
}

TEST(ContextBytesTest, AnEncodingHoldsMeasuringRows) {
  for (const MemoryPolicy policy : {MemoryPolicy::kHeavy, MemoryPolicy::kSample}) {
    EXPECT_EQ(TokensOf({.rows = 100, .memory = {64, policy}}), 100 + 4 * 100 + 2 * 100);
    EXPECT_EQ(TokensOf({.rows = 100'000, .memory = {64, policy}}),
              1024 + 4 * 1024 + 2 * (64 + 1024));
  }
}

}  // namespace
}  // namespace chorale
