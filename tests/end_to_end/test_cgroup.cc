#include "tests/end_to_end/test_cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {
namespace {

constexpr char kRoot[] = "/sys/fs/cgroup";
constexpr int64_t kPeriodMicroseconds = 100'000;

// This process's cgroup in the hierarchy of version 1 with this controller; "": of version 2.
std::string OwnCgroup(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() == 3 && parts[1] == controller) return parts[2];
  }
  return "/";
}

// Not through a stream: the kernel refuses a value when it is written.
bool Write(const std::string& file, const std::string& value) {
  const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
  close(fd);
  return written;
}

// A new folder below the process's own cgroup in the tree at `mount`, or else below the outermost.
// Only one that has the file `needed` is a cgroup of the kind that is wanted.
std::optional<std::string> MakeFolder(const std::string& mount, const std::string& own,
                                      const std::string& needed) {
  for (const std::string& parent : {absl::StrCat(mount, own), mount}) {
    std::string folder = absl::StrCat(parent, "/chorale-test-", getpid());
    if (mkdir(folder.c_str(), 0755) != 0) continue;
    if (access(absl::StrCat(folder, "/", needed).c_str(), W_OK) == 0) return folder;
    rmdir(folder.c_str());
  }
  return std::nullopt;
}

absl::Status Refused(const std::string& what) {
  return absl::UnavailableError(absl::StrCat("this machine lets the test make no cgroup: ", what,
                                             ": ", std::generic_category().message(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TestCgroup>> TestCgroup::Make(int64_t memory_bytes,
                                                             double processors) {
  std::unique_ptr<TestCgroup> cgroup(new TestCgroup());
  const std::string memory = absl::StrCat(memory_bytes);
  const std::string quota =
      absl::StrCat(static_cast<int64_t>(processors * static_cast<double>(kPeriodMicroseconds)));
  if (access(absl::StrCat(kRoot, "/cgroup.controllers").c_str(), F_OK) == 0) {
    const auto folder = MakeFolder(kRoot, OwnCgroup(""), "memory.max");
    if (!folder.has_value()) return Refused("memory.max");
    cgroup->folders_.push_back(*folder);
    if (!Write(*folder + "/memory.max", memory)) return Refused("memory.max");
    (void)Write(*folder + "/memory.swap.max", "0");
    if (processors > 0 && !Write(*folder + "/cpu.max", quota + " 100000")) {
      return Refused("cpu.max");
    }
    return cgroup;
  }
  const auto folder =
      MakeFolder(absl::StrCat(kRoot, "/memory"), OwnCgroup("memory"), "memory.limit_in_bytes");
  if (!folder.has_value()) return Refused("memory.limit_in_bytes");
  cgroup->folders_.push_back(*folder);
  if (!Write(*folder + "/memory.limit_in_bytes", memory)) return Refused("memory.limit_in_bytes");
  if (processors > 0) {
    const auto cpu = MakeFolder(absl::StrCat(kRoot, "/cpu"), OwnCgroup("cpu"), "cpu.cfs_quota_us");
    if (!cpu.has_value()) return Refused("cpu.cfs_quota_us");
    cgroup->folders_.push_back(*cpu);
    if (!Write(*cpu + "/cpu.cfs_quota_us", quota)) return Refused("cpu.cfs_quota_us");
  }
  return cgroup;
}

bool TestCgroup::SetMemory(int64_t memory_bytes) const {
  const std::string bytes = absl::StrCat(memory_bytes);
  return Write(folders_.front() + "/memory.max", bytes) ||
         Write(folders_.front() + "/memory.limit_in_bytes", bytes);
}

TestCgroup::~TestCgroup() {
  for (const std::string& folder : folders_) rmdir(folder.c_str());
}

}  // namespace chorale::end_to_end
