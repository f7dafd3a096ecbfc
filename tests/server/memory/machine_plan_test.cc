#include "server/memory/machine_plan.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kWeights = 5 * kMiB;
constexpr double kAlmostAll = 0.8;

AvailableResources Machine(int64_t limit_mib, double processors = 4) {
  AvailableResources machine;
  machine.free = {65536 * kMiB, "MemAvailable"};
  if (limit_mib > 0) machine.limit = {limit_mib * kMiB, "memory.max"};
  machine.cgroup = machine.limit;
  machine.processors = {processors, "cpu.max"};
  return machine;
}

int64_t Planned(const ProgramOptions& options) {
  const EngineSetup& engine = options.engine;
  return engine.cpu_context_pool_bytes + engine.cpu_buffer_pool_bytes +
         engine.registered_tables_bytes + options.server.registration_memory_bytes;
}

std::string Line(const MachinePlan& plan) { return FormatText("machine", plan.fields); }

TEST(MachinePlanTest, ALargeMachineHasTheDefaults) {
  ProgramOptions options;
  const auto plan = FitToMachine(Machine(0, 8), kWeights, &options);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(Planned(options), Planned(ProgramOptions()));
  EXPECT_EQ(options.server.memory_limit_bytes, 0);
  EXPECT_TRUE(options.server.own_memory_limit);
  EXPECT_THAT(Line(*plan), HasSubstr("memory_limit_mib=in_use+512"));
  EXPECT_EQ(options.engine.threads, 8);
  EXPECT_EQ(options.engine.summary_threads, 2);
  EXPECT_THAT(Line(*plan), AllOf(HasSubstr("memory_from=MemAvailable"), HasSubstr("threads=8"),
                                 HasSubstr("context_pool_mib=4096")));
}

TEST(MachinePlanTest, ASmallContainerHasPoolsThatFit) {
  ProgramOptions options;
  const auto plan = FitToMachine(Machine(300, 0.5), kWeights, &options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LT(static_cast<double>(Planned(options)), kAlmostAll * 300 * kMiB);
  EXPECT_GT(options.engine.cpu_context_pool_bytes, 75 * kMiB);  // three tables of 2,000 rows
  EXPECT_EQ(options.engine.threads, 1);
  EXPECT_EQ(options.engine.summary_threads, 1);
  EXPECT_EQ(options.server.memory_limit_bytes, 300 * kMiB);
  EXPECT_FALSE(options.server.own_memory_limit);
  EXPECT_THAT(plan->warning, IsEmpty());
  EXPECT_THAT(Line(*plan), AllOf(HasSubstr("memory_mib=300 memory_from=memory.max"),
                                 HasSubstr("processors=0.5 processors_from=cpu.max threads=1"),
                                 HasSubstr("memory_limit_mib=300")));
}

TEST(MachinePlanTest, MemoryThatIsFreeCountsAsWellButIsNoLimit) {
  AvailableResources machine = Machine(0);
  machine.free.bytes = 2048 * kMiB;
  ProgramOptions options;
  ASSERT_TRUE(FitToMachine(machine, kWeights, &options).ok());
  EXPECT_LT(static_cast<double>(Planned(options)), kAlmostAll * 2048 * kMiB);
  EXPECT_GT(Planned(options), 1024 * kMiB);
  EXPECT_EQ(options.server.memory_limit_bytes, 0);
  // Others may give back what they use at the moment.
  machine.free.bytes = 10 * kMiB;
  ProgramOptions least;
  const auto plan = FitToMachine(machine, kWeights, &least);
  ASSERT_TRUE(plan.ok());
  EXPECT_THAT(plan->warning, HasSubstr("may use 10 MiB of memory (MemAvailable)"));
  EXPECT_EQ(least.engine.cpu_context_pool_bytes, 32 * kMiB);
}

TEST(MachinePlanTest, AFlagThatIsGivenWins) {
  ProgramOptions options;
  options.given = {"context_pool_mib", "memory_limit_mib", "registration_memory_mib", "threads"};
  options.engine.context_pool_bytes = 100 * kMiB;
  options.engine.threads = 3;
  const auto plan = FitToMachine(Machine(2000, 0.5), kWeights, &options);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(options.engine.cpu_context_pool_bytes, 100 * kMiB);
  EXPECT_EQ(options.server.registration_memory_bytes, 1024 * kMiB);
  EXPECT_EQ(options.engine.threads, 3);
  EXPECT_EQ(options.server.memory_limit_bytes, 0);
  EXPECT_LT(static_cast<double>(Planned(options)), kAlmostAll * 2000 * kMiB);
  // The others share what is left.
  EXPECT_GT(options.engine.cpu_buffer_pool_bytes, 200 * kMiB);
}

TEST(MachinePlanTest, AFlagThatDoesNotFitWinsWithAWarning) {
  ProgramOptions options;
  options.given = {"context_pool_mib"};
  options.engine.context_pool_bytes = 4096 * kMiB;
  options.engine.backend = BackendChoice::kCpu;
  const auto plan = FitToMachine(Machine(300), kWeights, &options);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(options.engine.cpu_context_pool_bytes, 4096 * kMiB);
  EXPECT_THAT(plan->warning, HasSubstr("may use 300 MiB of memory (memory.max)"));
}

TEST(MachinePlanTest, TheLimitThatWasAskedForCountsLikeOneThatIsFound) {
  ProgramOptions options;
  options.given = {"memory_limit_mib"};
  options.server.memory_limit_bytes = 500 * kMiB;
  const auto plan = FitToMachine(Machine(1000), kWeights, &options);
  ASSERT_TRUE(plan.ok());
  EXPECT_LT(static_cast<double>(Planned(options)), kAlmostAll * 500 * kMiB);
  EXPECT_EQ(options.server.memory_limit_bytes, 500 * kMiB);
  EXPECT_FALSE(options.server.memory_limit_found);
  EXPECT_THAT(Line(*plan), HasSubstr("memory_from=--memory_limit_mib"));
}

// The image's configuration says 9000.
TEST(MachinePlanTest, ALimitAboveThatOfTheCgroupIsThatOfTheCgroup) {
  ProgramOptions options;
  options.given = {"memory_limit_mib"};
  options.server.memory_limit_bytes = 9000 * kMiB;
  ASSERT_TRUE(FitToMachine(Machine(300), kWeights, &options).ok());
  EXPECT_EQ(options.server.memory_limit_bytes, 300 * kMiB);
  EXPECT_TRUE(options.server.memory_limit_found);
  EXPECT_LT(static_cast<double>(Planned(options)), kAlmostAll * 300 * kMiB);
}

// It would switch the limit off that the process has of its own.
TEST(MachinePlanTest, ALimitAboveTheMachinesMemoryCountsAsNotGiven) {
  AvailableResources machine = Machine(0);
  machine.machine = {4000 * kMiB, "MemTotal"};
  ProgramOptions options;
  options.given = {"memory_limit_mib"};
  options.server.memory_limit_bytes = 9000 * kMiB;
  const auto plan = FitToMachine(machine, kWeights, &options);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(options.server.memory_limit_bytes, 0);
  EXPECT_TRUE(options.server.own_memory_limit);
  EXPECT_THAT(plan->limit_warning,
              HasSubstr("--memory_limit_mib=9000 exceeds 4000 MiB (MemTotal), and is ignored"));
  options.server.memory_limit_bytes = 3000 * kMiB;
  EXPECT_EQ(FitToMachine(machine, kWeights, &options)->limit_warning, "");
  EXPECT_EQ(options.server.memory_limit_bytes, 3000 * kMiB);
}

// Another start may find it free.
TEST(MachinePlanTest, WhatOthersHaveTakenOfTheLimitIsNoMistake) {
  AvailableResources machine = Machine(260);
  machine.lasting_limit = machine.cgroup;
  machine.limit.bytes = 106 * kMiB;
  ProgramOptions options;
  EXPECT_EQ(FitToMachine(machine, kWeights, &options).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(FitToMachine(machine.WithoutOthers(), kWeights, &options).ok());
  machine.lasting_limit.bytes = 120 * kMiB;
  EXPECT_EQ(FitToMachine(machine, kWeights, &options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MachinePlanTest, TooLittleToServeIsSaidAtTheStart) {
  ProgramOptions options;
  const absl::Status status = FitToMachine(Machine(100), kWeights, &options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("may use 100 MiB of memory (memory.max), but needs about"),
                    HasSubstr("74 MiB for the program and its models")));
  // What it asks for is enough.
  ProgramOptions enough;
  EXPECT_TRUE(FitToMachine(Machine(156), kWeights, &enough).ok());
}

TEST(MachinePlanTest, ANewLimitIsDividedLikeTheFirst) {
  ProgramOptions configured;
  configured.given = {"context_pool_mib"};
  configured.engine.context_pool_bytes = 900 * kMiB;
  ProgramOptions planned = configured;
  ASSERT_TRUE(FitToMachine(Machine(2000), kWeights, &planned).ok());
  const auto divide = [&](int64_t mib) {
    const MemoryBound bound = mib > 0 ? MemoryBound{mib * kMiB, "memory.max"} : MemoryBound();
    return DivideAnew(bound, kWeights, /*on_host=*/true, configured, planned);
  };
  const MemoryShares small = divide(350);
  EXPECT_EQ(small.limit_bytes, 350 * kMiB);
  EXPECT_EQ(small.warning, "");
  const int64_t sum = small.pools.context + small.pools.buffer + small.pools.registration +
                      small.registration_memory_bytes;
  EXPECT_LT(static_cast<double>(sum), kAlmostAll * 350 * kMiB);
  EXPECT_GT(small.pools.context, 90 * kMiB);  // also where a flag has set its size
  const MemoryShares large = divide(64'000);
  EXPECT_EQ(large.limit_bytes, 64'000 * kMiB);
  EXPECT_EQ(large.pools.context, 900 * kMiB);
  EXPECT_EQ(large.pools.buffer, planned.engine.cpu_buffer_pool_bytes);
  EXPECT_EQ(large.registration_memory_bytes, planned.server.registration_memory_bytes);
  const MemoryShares none = divide(0);
  EXPECT_EQ(none.limit_bytes, 0);
  EXPECT_TRUE(none.own_memory_limit);
  EXPECT_EQ(none.pools.context, 900 * kMiB);
  const MemoryShares tiny = divide(80);
  EXPECT_THAT(tiny.warning, HasSubstr("needs about"));
  EXPECT_EQ(tiny.pools.context, 32 * kMiB);
  const MemoryShares gpu =
      DivideAnew({350 * kMiB, "memory.max"}, kWeights, /*on_host=*/false, configured, planned);
  EXPECT_LT(gpu.registration_memory_bytes, 300 * kMiB);
}

TEST(MachinePlanTest, PoolsOfAGpuAreNotInHostMemory) {
  ProgramOptions options;
  options.given = {"context_pool_mib"};
  options.engine.context_pool_bytes = 80'000 * kMiB;
  for (const BackendChoice backend : {BackendChoice::kCuda, BackendChoice::kAuto}) {
    options.engine.backend = backend;
    const auto plan = FitToMachine(Machine(8000), kWeights, &options);
    ASSERT_TRUE(plan.ok());
    EXPECT_THAT(plan->warning, IsEmpty());
    EXPECT_EQ(options.server.registration_memory_bytes, 1024 * kMiB);
    EXPECT_EQ(options.engine.host_context_pool_bytes, 1024 * kMiB);
    EXPECT_THAT(Line(*plan), Not(HasSubstr(" context_pool_mib")));
  }
  ProgramOptions small;
  small.engine.backend = BackendChoice::kCuda;
  ASSERT_TRUE(FitToMachine(Machine(1000), kWeights, &small).ok());
  EXPECT_LT(small.engine.host_context_pool_bytes, 400 * kMiB);
}

}  // namespace
}  // namespace chorale
