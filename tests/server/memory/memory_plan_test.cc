#include "server/memory/memory_plan.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

ServerOptions Options(int64_t limit_mib) {
  ServerOptions options;
  options.memory_limit_bytes = limit_mib * kMiB;
  options.registration_memory_bytes = 100 * kMiB;
  return options;
}

BackendInfo Backend(const char* name) {
  BackendInfo info;
  info.backend = name;
  return info;
}

constexpr PoolSizes kPools = {.context = 400 * kMiB,
                              .buffer = 200 * kMiB,
                              .encode = 0,
                              .host_context = 50 * kMiB,
                              .registration = 50 * kMiB};

TEST(MemoryPlanTest, PoolsMayTakeFourFifths) {
  EXPECT_TRUE(CheckMemoryPlan(Options(938), kPools, Backend("cpu")).ok());
  const absl::Status status = CheckMemoryPlan(Options(937), kPools, Backend("cpu"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("--memory_limit_mib=937 is too low: 750 MiB are planned"),
                    HasSubstr("--context_pool_mib 400, --buffer_pool_mib 200, "
                              "--registration_memory_mib 100"),
                    HasSubstr("a limit of 938 or more")));
}

TEST(MemoryPlanTest, PoolsOfAGpuAreNotInHostMemory) {
  EXPECT_TRUE(CheckMemoryPlan(Options(250), kPools, Backend("cuda")).ok());
  EXPECT_THAT(std::string(CheckMemoryPlan(Options(249), kPools, Backend("cuda")).message()),
              HasSubstr("--host_context_pool_mib 50"));
}

TEST(MemoryPlanTest, WithoutALimitEverythingFits) {
  EXPECT_TRUE(CheckMemoryPlan(Options(0), kPools, Backend("cpu")).ok());
}

}  // namespace
}  // namespace chorale
