#include "engine/backend/cuda/device/memory_budget.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kGiB = 1 << 30;

int64_t Sum(const cuda::MemoryBudget& budget) {
  return budget.context_pool_bytes + budget.buffer_pool_bytes + budget.encode_pool_bytes +
         budget.weights_bytes + budget.workspace_bytes;
}

TEST(MemoryBudgetTest, UnaskedEverythingGetsAShare) {
  for (const int64_t free_bytes : {kGiB, 23 * kGiB, 139 * kGiB}) {
    const absl::StatusOr<cuda::MemoryBudget> budget = cuda::ShareOutMemory({}, free_bytes);
    ASSERT_TRUE(budget.ok()) << budget.status();
    EXPECT_LE(Sum(*budget), 0.94 * free_bytes);
    EXPECT_GE(Sum(*budget), 0.94 * free_bytes - 5 * kMiB);
    EXPECT_NEAR(budget->context_pool_bytes, 2 * budget->buffer_pool_bytes, 4 * kMiB);
    for (const int64_t small :
         {budget->encode_pool_bytes, budget->weights_bytes, budget->workspace_bytes}) {
      EXPECT_GT(small, 0);
      EXPECT_LE(small, 512 * kMiB);
    }
    EXPECT_EQ(Sum(*budget) % kMiB, 0);
  }
}

TEST(MemoryBudgetTest, TheFractionIsWhatAllPartsTakeTogether) {
  const absl::StatusOr<cuda::MemoryBudget> half =
      cuda::ShareOutMemory({.memory_fraction = 0.5}, 4 * kGiB);
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_LE(Sum(*half), 2 * kGiB);
  EXPECT_GE(Sum(*half), 2 * kGiB - 5 * kMiB);
  EXPECT_EQ(half->weights_bytes, 2 * kGiB / 16);
  EXPECT_TRUE(cuda::ShareOutMemory({.memory_fraction = 1}, 4 * kGiB).ok());
  for (const double wrong : {0.0, -0.5, 1.01, std::nan("")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        cuda::ShareOutMemory({.memory_fraction = wrong}, 4 * kGiB).status()))
        << wrong;
  }
}

TEST(MemoryBudgetTest, WhatIsAskedForIsTaken) {
  const cuda::MemoryBudget asked = {kGiB + 1, 2 * kGiB + 2, 3 * kGiB + 3, kGiB + 4, kGiB + 5};
  const absl::StatusOr<cuda::MemoryBudget> budget = cuda::ShareOutMemory(asked, Sum(asked));
  ASSERT_TRUE(budget.ok()) << budget.status();
  EXPECT_EQ(budget->context_pool_bytes, asked.context_pool_bytes);
  EXPECT_EQ(budget->buffer_pool_bytes, asked.buffer_pool_bytes);
  EXPECT_EQ(budget->encode_pool_bytes, asked.encode_pool_bytes);
  EXPECT_EQ(budget->weights_bytes, asked.weights_bytes);
  EXPECT_EQ(budget->workspace_bytes, asked.workspace_bytes);
}

TEST(MemoryBudgetTest, OnePoolGetsWhatTheOtherLeaves) {
  const int64_t left = 16 * kGiB - 3 * 512 * kMiB;
  EXPECT_EQ(cuda::ShareOutMemory({.buffer_pool_bytes = kGiB, .memory_fraction = 0.5}, 32 * kGiB)
                ->context_pool_bytes,
            left - kGiB);
  EXPECT_EQ(cuda::ShareOutMemory({.context_pool_bytes = kGiB, .memory_fraction = 0.5}, 32 * kGiB)
                ->buffer_pool_bytes,
            left - kGiB);
}

TEST(MemoryBudgetTest, TooMuchIsRefusedWithTheNumbers) {
  const cuda::MemoryBudget cases[] = {{.context_pool_bytes = 5 * kGiB},
                                      {.buffer_pool_bytes = 5 * kGiB},
                                      {.encode_pool_bytes = 5 * kGiB},
                                      {.weights_bytes = 5 * kGiB},
                                      {.workspace_bytes = 5 * kGiB}};
  for (const cuda::MemoryBudget& asked : cases) {
    const absl::Status status = cuda::ShareOutMemory(asked, 4 * kGiB).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("4096 MiB"), HasSubstr("5120")));
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(cuda::ShareOutMemory({.workspace_bytes = -1}, kGiB).status()));
}

}  // namespace
}  // namespace chorale
