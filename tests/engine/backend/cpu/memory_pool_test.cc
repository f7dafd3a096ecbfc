#include "engine/backend/cpu/memory_pool.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale::cpu {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBytes = 1 << 20;
constexpr int64_t kFloats = kBytes / sizeof(float);

TEST(MemoryPoolTest, StartsClearedAndKeepsWhatIsWritten) {
  const std::unique_ptr<MemoryPool> pool = *MemoryPool::Create("pool", kBytes);
  EXPECT_EQ(pool->bytes(), kBytes);
  float* all = pool->At({.offset = 0, .bytes = kBytes});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(all) % MemoryPool::kAlignment, 0u);
  EXPECT_EQ(std::count(all, all + kFloats, 0.0f), kFloats);
  std::fill(all, all + kFloats, 3.0f);
  EXPECT_EQ(*pool->At({.offset = 64, .bytes = 64}), 3.0f);
}

// Ranges within a page, on page borders, and across them: cleared exactly, neighbours untouched.
TEST(MemoryPoolTest, ClearsExactlyTheRange) {
  const std::unique_ptr<MemoryPool> pool = *MemoryPool::Create("pool", kBytes);
  float* all = pool->At({.offset = 0, .bytes = kBytes});
  for (int64_t offset : {0, 64, 4'032, 4'096, 4'160, 8'192}) {
    for (int64_t bytes : {0, 64, 128, 4'096, 4'160, 12'288, 40'960, 100'032}) {
      std::fill(all, all + kFloats, 1.0f);
      pool->Clear({.offset = offset, .bytes = bytes});
      const int64_t begin = offset / 4;
      const int64_t end = begin + bytes / 4;
      EXPECT_EQ(std::count(all, all + begin, 1.0f), begin);
      EXPECT_EQ(std::count(all + begin, all + end, 0.0f), end - begin);
      EXPECT_EQ(std::count(all + end, all + kFloats, 1.0f), kFloats - end);
    }
  }
  std::fill(all, all + kFloats, 1.0f);
  pool->Clear({.offset = 0, .bytes = kBytes});
  EXPECT_EQ(std::count(all, all + kFloats, 0.0f), kFloats);
}

TEST(MemoryPoolTest, RefusesSizesThatCannotBe) {
  for (int64_t bytes : {int64_t{0}, int64_t{-1}}) {
    const absl::Status status = MemoryPool::Create("some_pool", bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("some_pool"));
  }
  const absl::Status status =
      MemoryPool::Create("some_pool", std::numeric_limits<int64_t>::max()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("some_pool"));
}

TEST(MemoryPoolDeathTest, RangesOutsideThePoolAreBugs) {
  const std::unique_ptr<MemoryPool> pool = *MemoryPool::Create("pool", kBytes);
  EXPECT_DEATH(pool->At({.offset = kBytes, .bytes = 64}), "lies in its pool");
  EXPECT_DEATH(pool->At({.offset = -64, .bytes = 64}), "lies in its pool");
  EXPECT_DEATH(pool->At({.offset = 4, .bytes = 64}), "aligned");
}

}  // namespace
}  // namespace chorale::cpu
