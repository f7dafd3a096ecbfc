#include "server/telemetry/process_statistics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

// Memory that is in use, which a compiler would otherwise notice that nobody reads.
std::vector<char> UsedMemory(size_t bytes) {
  std::vector<char> memory(bytes);
  std::memset(memory.data(), 1, memory.size());
  asm volatile("" : : "r"(memory.data()) : "memory");
  return memory;
}

TEST(ProcessStatisticsTest, SaysWhatTheProcessUses) {
  const auto before = ReadProcessStatistics();
  ASSERT_TRUE(before.has_value());
  EXPECT_GE(before->threads, 1);
  EXPECT_GT(before->max_fds, before->open_fds);
  EXPECT_GT(before->virtual_bytes, before->resident_bytes);
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LE(before->start_time, now + 2);  // the boot time is known to the second
  EXPECT_GT(before->start_time, now - 24 * 3600);

  constexpr size_t kBytes = 64 << 20;
  const std::vector<char> memory = UsedMemory(kBytes);
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  volatile double sum = 0;
  while (ReadProcessStatistics()->cpu_seconds <= before->cpu_seconds) {
    for (int i = 0; i < 100'000; ++i) sum = sum + i;
  }
  const auto after = ReadProcessStatistics();
  EXPECT_GE(after->resident_bytes, before->resident_bytes + static_cast<int64_t>(kBytes) / 2);
  EXPECT_EQ(after->open_fds, before->open_fds + 1);
  close(fd);
}

TEST(ProcessStatisticsTest, ResidentBytesAndTheAllocatorFollowWhatIsUsed) {
  const int64_t resident = ResidentBytes();
  EXPECT_NEAR(static_cast<double>(resident),
              static_cast<double>(ReadProcessStatistics()->resident_bytes), 16 << 20);
  [[maybe_unused]] const AllocatorBytes before = ReadAllocatorBytes();
  constexpr int64_t kBytes = 64 << 20;
  const std::vector<char> memory = UsedMemory(kBytes);
  EXPECT_GE(ResidentBytes(), resident + kBytes / 2);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
  // Sanitizers have an allocator of their own.
  EXPECT_GE(ReadAllocatorBytes().used, before.used + kBytes);
  EXPECT_GE(before.free, 0);
#endif
}

}  // namespace
}  // namespace chorale
