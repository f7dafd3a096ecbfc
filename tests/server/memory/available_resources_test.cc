#include "server/memory/available_resources.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
constexpr char kUnified[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

// A machine of 16 GiB and 8 processors, in a folder.
class AvailableResourcesTest : public ::testing::Test {
 protected:
  AvailableResourcesTest() {
    fs::remove_all(root_);
    Write("proc/meminfo",
          "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:   12582912 kB\n"
          "CommitLimit:     3145728 kB\nCommitted_AS:    1048576 kB\n");
    Write("proc/sys/vm/overcommit_memory", "0\n");
  }
  ~AvailableResourcesTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void Write(const std::string& path, int64_t number) const {
    Write(path, absl::StrCat(number, "\n"));
  }
  void Mounts(const std::string& mountinfo, const std::string& cgroup) const {
    Write("proc/self/mountinfo",
          absl::StrCat("22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n", mountinfo));
    Write("proc/self/cgroup", cgroup);
  }
  AvailableResources Find(ProcessLimits limits = {8, 0}) const {
    return FindResources(limits, root_);
  }

  const fs::path root_ =
      fs::path(::testing::TempDir()) / absl::StrCat("chorale-machine-", getpid());
};

TEST_F(AvailableResourcesTest, WithoutCgroupsTheMachineCounts) {
  const AvailableResources found = Find();
  EXPECT_FALSE(found.limit.known());
  EXPECT_FALSE(found.cgroup.known());
  EXPECT_EQ(found.memory().bytes, 12288 * kMiB);
  EXPECT_THAT(found.memory().source, HasSubstr("MemAvailable"));
  EXPECT_EQ(found.threads(), 8);
}

TEST_F(AvailableResourcesTest, AnUnknownMachineBoundsNothing) {
  fs::remove_all(root_);
  const AvailableResources found = Find({0, 0});
  EXPECT_FALSE(found.memory().known());
  EXPECT_EQ(found.threads(), 1);
}

TEST_F(AvailableResourcesTest, Version2InsideAContainer) {
  Mounts(kUnified, "0::/\n");
  Write("sys/fs/cgroup/memory.max", 300 * kMiB);
  Write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  const AvailableResources found = Find();
  EXPECT_EQ(found.memory().bytes, 300 * kMiB);
  EXPECT_EQ(found.cgroup.bytes, 300 * kMiB);
  EXPECT_THAT(found.memory().source, HasSubstr("/sys/fs/cgroup/memory.max"));
  EXPECT_DOUBLE_EQ(found.processors.processors, 0.5);
  EXPECT_THAT(found.processors.source, HasSubstr("cpu.max"));
  EXPECT_EQ(found.threads(), 1);
}

TEST_F(AvailableResourcesTest, Version2ThroughAllCgroupsAround) {
  Mounts(kUnified, "0::/machine.slice/pod a/server\n");
  Write("sys/fs/cgroup/machine.slice/pod a/server/memory.max", "max\n");
  Write("sys/fs/cgroup/machine.slice/pod a/server/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/machine.slice/pod a/memory.max", 700 * kMiB);
  Write("sys/fs/cgroup/machine.slice/pod a/memory.high", 600 * kMiB);
  Write("sys/fs/cgroup/machine.slice/pod a/cpu.max", "250000 100000\n");
  Write("sys/fs/cgroup/machine.slice/memory.max", 900 * kMiB);
  Write("sys/fs/cgroup/machine.slice/cpu.max", "400000 100000\n");
  const AvailableResources found = Find();
  EXPECT_EQ(found.memory().bytes, 600 * kMiB);
  EXPECT_THAT(found.memory().source, HasSubstr("pod a/memory.high"));
  EXPECT_EQ(found.threads(), 3);
}

TEST_F(AvailableResourcesTest, WhatOthersInTheCgroupUseIsNotThere) {
  Mounts(kUnified, "0::/pod/server\n");
  Write("sys/fs/cgroup/pod/server/memory.max", "max\n");
  Write("sys/fs/cgroup/pod/memory.max", 1000 * kMiB);
  Write("sys/fs/cgroup/pod/memory.current", 700 * kMiB);
  Write("sys/fs/cgroup/pod/memory.stat",
        absl::StrCat("anon 1\ninactive_file ", 200 * kMiB, "\nactive_file ", 50 * kMiB,
                     "\nslab_reclaimable ", 50 * kMiB, "\n"));
  const AvailableResources found = Find();
  EXPECT_EQ(found.memory().bytes, 600 * kMiB);
  EXPECT_THAT(found.memory().source,
              HasSubstr("1000 MiB including the memory in use by other processes"));
  EXPECT_EQ(found.cgroup.bytes, 1000 * kMiB);
}

TEST_F(AvailableResourcesTest, Version1ThroughAllCgroupsAround) {
  Mounts(
      "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
      "5:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n0::/\n");
  Write("sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", 9223372036854771712);
  Write("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", 300 * kMiB);
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712);
  Write("sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_quota_us", -1);
  Write("sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_period_us", 100000);
  Write("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", 150000);
  Write("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", 100000);
  const AvailableResources found = Find();
  EXPECT_EQ(found.memory().bytes, 300 * kMiB);
  EXPECT_DOUBLE_EQ(found.processors.processors, 1.5);
  EXPECT_EQ(found.threads(), 2);
}

// Docker without a namespace of cgroups: the process's path is the host's, but its own part of the
// tree is mounted.
TEST_F(AvailableResourcesTest, Version1OfWhichOnlyOwnPartIsMounted) {
  Mounts(
      "31 23 0:27 /docker/a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
      "32 23 0:28 /docker/b /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n",
      "5:memory:/docker/a\n4:cpu:/docker/elsewhere\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", 400 * kMiB);
  // A cgroup around it, which is not mounted, is narrower.
  Write("sys/fs/cgroup/memory/memory.stat",
        absl::StrCat("cache 0\nhierarchical_memory_limit ", 350 * kMiB, "\n"));
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", 200000);
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", 100000);
  const AvailableResources found = Find();
  EXPECT_EQ(found.memory().bytes, 350 * kMiB);
  EXPECT_EQ(found.threads(), 2);
}

TEST_F(AvailableResourcesTest, AffinityBelowTheQuotaCounts) {
  Mounts(kUnified, "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(Find({2, 0}).threads(), 2);
  EXPECT_THAT(Find({2, 0}).processors.source, HasSubstr("affinity"));
  EXPECT_EQ(Find({64, 0}).threads(), 4);
}

TEST_F(AvailableResourcesTest, ALimitBeyondTheMachineIsNone) {
  Mounts(kUnified, "0::/\n");
  Write("sys/fs/cgroup/memory.max", 64 * 1024 * kMiB);
  const AvailableResources found = Find();
  EXPECT_FALSE(found.cgroup.known());
  EXPECT_FALSE(found.limit.known());
  EXPECT_EQ(found.memory().bytes, 12288 * kMiB);
}

TEST_F(AvailableResourcesTest, AddressSpaceAndStrictCommitmentCount) {
  EXPECT_EQ(Find({8, 3072 * kMiB}).memory().bytes, 2048 * kMiB);
  EXPECT_THAT(Find({8, 3072 * kMiB}).limit.source, HasSubstr("RLIMIT_AS"));
  Write("proc/sys/vm/overcommit_memory", "2\n");
  EXPECT_EQ(Find().memory().bytes, 2048 * kMiB);
}

TEST_F(AvailableResourcesTest, GarbageBoundsNothing) {
  Mounts("nonsense\n1 2 - \n\\\\ - cgroup2 x y\n30 23 0:26 / /c rw - cgroup2 x rw\n",
         "0::/../..\n:::\nx\n");
  Write("c/memory.max", "lots\n");
  for (const char* const quota : {"0 0\n", "0 100000\n", "-1 100000\n", "max\n", "nan nan\n", ""}) {
    Write("c/cpu.max", quota);
    EXPECT_FALSE(Find().limit.known());
    EXPECT_EQ(Find().threads(), 8) << quota;
  }
}

TEST_F(AvailableResourcesTest, ANegativeLimitIsNoneHoweverMuchIsUsed) {
  Mounts(kUnified, "0::/\n");
  Write("sys/fs/cgroup/memory.max", -1);
  Write("sys/fs/cgroup/memory.current", 700 * kMiB);
  EXPECT_FALSE(Find().limit.known());
  EXPECT_EQ(Find().memory().bytes, 12288 * kMiB);
}

TEST(ProcessLimitsTest, ThisProcessMayRunSomewhere) {
  EXPECT_GE(ReadProcessLimits().scheduling_affinity, 1);
  EXPECT_GT(FindResources().memory().bytes, 0);
}

}  // namespace
}  // namespace chorale
