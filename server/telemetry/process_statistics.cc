#include "server/telemetry/process_statistics.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace chorale {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double Number(absl::string_view text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) ? number : 0;
}

// When the machine was started, since the Unix epoch.
double BootTime() {
  for (absl::string_view line : absl::StrSplit(ReadAll("/proc/stat"), '\n')) {
    if (absl::ConsumePrefix(&line, "btime ")) return Number(line);
  }
  return 0;
}

int64_t CountOpenFds() {
  std::error_code error;
  const std::filesystem::directory_iterator fds("/proc/self/fd", error);
  if (error) return 0;
  return std::distance(begin(fds), end(fds)) - 1;  // less the one that lists them
}

}  // namespace

std::optional<ProcessStatistics> ReadProcessStatistics() {
  const std::string stat = ReadAll("/proc/self/stat");
  // The second field, the program's name in parentheses, may have spaces: count behind it. The
  // first field there is number 3 of proc(5).
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(stat).substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kFirst = 3;
  constexpr size_t kUtime = 14 - kFirst;
  constexpr size_t kStime = 15 - kFirst;
  constexpr size_t kThreads = 20 - kFirst;
  constexpr size_t kStartTime = 22 - kFirst;
  constexpr size_t kVirtualSize = 23 - kFirst;
  constexpr size_t kResidentPages = 24 - kFirst;
  if (fields.size() <= kResidentPages) return std::nullopt;

  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  ProcessStatistics statistics;
  statistics.cpu_seconds = (Number(fields[kUtime]) + Number(fields[kStime])) / ticks_per_second;
  statistics.threads = static_cast<int64_t>(Number(fields[kThreads]));
  statistics.start_time = BootTime() + Number(fields[kStartTime]) / ticks_per_second;
  statistics.virtual_bytes = static_cast<int64_t>(Number(fields[kVirtualSize]));
  statistics.resident_bytes =
      static_cast<int64_t>(Number(fields[kResidentPages])) * sysconf(_SC_PAGESIZE);
  statistics.open_fds = CountOpenFds();
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    statistics.max_fds = static_cast<int64_t>(limit.rlim_cur);
  }
  return statistics;
}

int64_t ResidentBytes() {
  // "size resident shared ...", in pages.
  const std::string pages = ReadAll("/proc/self/statm");
  const std::vector<absl::string_view> fields = absl::StrSplit(pages, ' ');
  return fields.size() < 2 ? 0 : static_cast<int64_t>(Number(fields[1])) * sysconf(_SC_PAGESIZE);
}

AllocatorBytes ReadAllocatorBytes() {
  const struct mallinfo2 info = mallinfo2();
  return {.used = static_cast<int64_t>(info.uordblks + info.hblkhd),
          .free = static_cast<int64_t>(info.fordblks)};
}

}  // namespace chorale
