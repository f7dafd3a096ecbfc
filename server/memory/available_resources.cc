#include "server/memory/available_resources.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace chorale {
namespace {

// Address space that threads' stacks, the allocator's arenas and libraries take without using it.
constexpr int64_t kAddressSpaceOverhead = 1LL << 30;

// Version 1 writes such a number for "no limit".
constexpr int64_t kUnlimitedBytes = 1LL << 60;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> ReadNumber(const std::string& path) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(ReadText(path), &number)) return std::nullopt;
  return number;
}

// Of lines "key value" or "key: value kB".
std::map<std::string, int64_t> ReadTable(const std::string& path) {
  std::map<std::string, int64_t> table;
  const std::string text = ReadText(path);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(": \t"), absl::SkipEmpty());
    int64_t number = 0;
    if (words.size() < 2 || !absl::SimpleAtoi(words[1], &number)) continue;
    table[std::string(words[0])] = words.size() > 2 && words[2] == "kB" ? number << 10 : number;
  }
  return table;
}

int64_t ValueOf(const std::map<std::string, int64_t>& table, const std::string& key) {
  const auto found = table.find(key);
  return found == table.end() ? 0 : found->second;
}

// A mounted hierarchy of cgroups.
struct Mount {
  std::string cgroup;  // which of its cgroups is mounted
  std::string folder;  // where
};

struct Hierarchies {
  std::optional<Mount> unified;             // version 2
  std::map<std::string, Mount> controller;  // of version 1, by name
};

// mountinfo writes a blank as \040.
std::string Unescape(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    if (text[i] == '\\' && i + 3 < text.size()) {
      for (size_t digit = i + 1; digit < i + 4; ++digit) code = code * 8 + (text[digit] - '0');
      i += 3;
      plain.push_back(static_cast<char>(code));
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// "36 35 98:0 /ROOT /FOLDER rw,... shared:1 - TYPE SOURCE OPTIONS"
Hierarchies FindHierarchies(const std::string& root) {
  Hierarchies found;
  const std::string text = ReadText(absl::StrCat(root, "/proc/self/mountinfo"));
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<absl::string_view> mount = absl::StrSplit(halves[0], ' ');
    const std::vector<absl::string_view> system = absl::StrSplit(halves[1], ' ');
    if (mount.size() < 5 || system.size() < 3) continue;
    const Mount here = {Unescape(mount[3]), absl::StrCat(root, Unescape(mount[4]))};
    if (system[0] == "cgroup2" && !found.unified.has_value()) found.unified = here;
    if (system[0] != "cgroup") continue;
    for (const absl::string_view option : absl::StrSplit(system[2], ',')) {
      found.controller.emplace(option, here);
    }
  }
  return found;
}

// The process's cgroup in the hierarchy with this controller; "" is that of version 2.
std::optional<std::string> OwnCgroup(const std::string& root, absl::string_view controller) {
  const std::string text = ReadText(absl::StrCat(root, "/proc/self/cgroup"));
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (absl::c_linear_search(controllers, controller)) return std::string(parts[2]);
  }
  return std::nullopt;
}

// The folders of the cgroup and of those around it, the innermost first, as far as they are to be
// seen. Where the process's own is not below what is mounted, as in a container that sees only its
// own part of the tree under another name, it is the mounted one.
std::vector<std::string> Folders(const Mount& mount, const std::string& cgroup) {
  absl::string_view below = cgroup;
  const std::string prefix = mount.cgroup == "/" ? "" : mount.cgroup;
  const bool inside = absl::ConsumePrefix(&below, prefix) && (below.empty() || below[0] == '/') &&
                      !absl::StrContains(below, "/..");
  std::vector<std::string> folders;
  while (inside && !below.empty() && below != "/") {
    std::string folder = absl::StrCat(mount.folder, below);
    if (access(folder.c_str(), F_OK) == 0) folders.push_back(std::move(folder));
    below = below.substr(0, below.rfind('/'));
  }
  folders.push_back(mount.folder);
  return folders;
}

void Narrow(MemoryBound* bound, int64_t bytes, std::string source) {
  if (bytes < 0 || bytes >= kUnlimitedBytes || (bound->known() && bytes >= bound->bytes)) return;
  *bound = {bytes, std::move(source)};
}

// What is left of a cgroup's limit: what it uses has been taken, unless it is given back easily, or
// is so little that it may be this process's own.
int64_t LeftOf(int64_t limit, int64_t used, int64_t given_back) {
  const int64_t taken = std::max<int64_t>(0, used - given_back);
  return taken <= limit / 20 ? limit : std::max<int64_t>(0, limit - taken);
}

void NarrowByCgroup(int64_t limit, int64_t used, int64_t given_back, const std::string& source,
                    AvailableResources* found) {
  if (limit < 0 || limit >= kUnlimitedBytes) return;  // -1, too, is "none"
  Narrow(&found->cgroup, limit, source);
  Narrow(&found->lasting_limit, limit, source);
  const int64_t left = LeftOf(limit, used, given_back);
  Narrow(&found->limit, left,
         left < limit ? absl::StrCat(source, ", ", limit >> 20,
                                     " MiB including the memory in use by other processes")
                      : source);
}

void ReadUnified(const Mount& mount, const std::string& cgroup, AvailableResources* found) {
  for (const std::string& folder : Folders(mount, cgroup)) {
    const auto stat = ReadTable(absl::StrCat(folder, "/memory.stat"));
    const int64_t given_back = ValueOf(stat, "inactive_file") + ValueOf(stat, "active_file") +
                               ValueOf(stat, "slab_reclaimable");
    const int64_t used = ReadNumber(absl::StrCat(folder, "/memory.current")).value_or(0);
    for (const char* const name : {"memory.max", "memory.high"}) {
      const std::string file = absl::StrCat(folder, "/", name);
      if (const auto limit = ReadNumber(file))
        NarrowByCgroup(*limit, used, given_back, file, found);
    }
    const std::string file = absl::StrCat(folder, "/cpu.max");
    const std::string text = ReadText(file);
    const std::vector<absl::string_view> words =
        absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
    double quota = 0;
    double period = 0;
    if (words.size() == 2 && absl::SimpleAtod(words[0], &quota) &&
        absl::SimpleAtod(words[1], &period) && quota > 0 && period > 0 &&
        quota / period < found->processors.processors) {
      found->processors = {quota / period, file};
    }
  }
}

void ReadMemoryOfVersion1(const Mount& mount, const std::string& cgroup,
                          AvailableResources* found) {
  for (const std::string& folder : Folders(mount, cgroup)) {
    const auto stat = ReadTable(absl::StrCat(folder, "/memory.stat"));
    const int64_t given_back =
        ValueOf(stat, "total_inactive_file") + ValueOf(stat, "total_active_file");
    const int64_t used = ReadNumber(absl::StrCat(folder, "/memory.usage_in_bytes")).value_or(0);
    const std::string file = absl::StrCat(folder, "/memory.limit_in_bytes");
    if (const auto limit = ReadNumber(file)) NarrowByCgroup(*limit, used, given_back, file, found);
    // Also of cgroups around it that are not to be seen.
    if (const int64_t limit = ValueOf(stat, "hierarchical_memory_limit"); limit > 0) {
      NarrowByCgroup(limit, used, given_back,
                     absl::StrCat("hierarchical_memory_limit in ", folder, "/memory.stat"), found);
    }
  }
}

void ReadProcessorsOfVersion1(const Mount& mount, const std::string& cgroup,
                              AvailableResources* found) {
  for (const std::string& folder : Folders(mount, cgroup)) {
    const std::string file = absl::StrCat(folder, "/cpu.cfs_quota_us");
    const auto quota = ReadNumber(file);
    const auto period = ReadNumber(absl::StrCat(folder, "/cpu.cfs_period_us"));
    if (!quota.has_value() || *quota <= 0 || period.value_or(0) <= 0) continue;
    const double processors = static_cast<double>(*quota) / static_cast<double>(*period);
    if (processors < found->processors.processors) found->processors = {processors, file};
  }
}

void ReadMachine(const std::string& root, AvailableResources* found) {
  const auto memory = ReadTable(absl::StrCat(root, "/proc/meminfo"));
  const auto available = memory.find("MemAvailable");
  if (available != memory.end()) {
    Narrow(&found->free, available->second, "MemAvailable in /proc/meminfo");
  }
  // Where the kernel promises no more than it has, address space is memory.
  constexpr int64_t kNever = 2;
  if (ReadNumber(absl::StrCat(root, "/proc/sys/vm/overcommit_memory")) == kNever) {
    const int64_t left = ValueOf(memory, "CommitLimit") - ValueOf(memory, "Committed_AS");
    Narrow(&found->free, std::max<int64_t>(left, 0), "CommitLimit in /proc/meminfo");
  }
  // A limit beyond what the machine has is none.
  const int64_t total = ValueOf(memory, "MemTotal");
  if (total > 0 && found->cgroup.bytes >= total) found->cgroup = {};
  if (total > 0 && found->limit.bytes >= total) found->limit = {};
  if (total > 0 && found->lasting_limit.bytes >= total) found->lasting_limit = {};
  if (total > 0) found->machine = {total, "MemTotal in /proc/meminfo"};
}

}  // namespace

const MemoryBound& AvailableResources::memory() const {
  if (!limit.known()) return free;
  return free.known() && free.bytes < limit.bytes ? free : limit;
}

AvailableResources AvailableResources::WithoutOthers() const {
  AvailableResources all = *this;
  all.limit = lasting_limit;
  all.free = machine;
  return all;
}

int AvailableResources::threads() const {
  // A quota of 2.01 is one of 2 that was written in another unit.
  return std::max(1, static_cast<int>(std::ceil(processors.processors - 0.05)));
}

ProcessLimits ReadProcessLimits() {
  ProcessLimits limits;
  // A set of a fixed size is too small for the largest machines.
  constexpr int kMostProcessors = 1 << 16;
  cpu_set_t* const set = CPU_ALLOC(kMostProcessors);
  const size_t bytes = CPU_ALLOC_SIZE(kMostProcessors);
  if (set != nullptr && sched_getaffinity(0, bytes, set) == 0) {
    limits.scheduling_affinity = CPU_COUNT_S(bytes, set);
  }
  CPU_FREE(set);
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit = {};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    const int64_t allowed = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kUnlimitedBytes));
    if (limits.address_space_bytes == 0 || allowed < limits.address_space_bytes) {
      limits.address_space_bytes = allowed;
    }
  }
  return limits;
}

AvailableResources FindResources(const ProcessLimits& limits, const std::string& root) {
  AvailableResources found;
  const int affinity = std::max(1, limits.scheduling_affinity);
  found.processors = {static_cast<double>(affinity), "scheduling affinity"};
  const Hierarchies hierarchies = FindHierarchies(root);
  if (const auto own = OwnCgroup(root, ""); own.has_value() && hierarchies.unified.has_value()) {
    ReadUnified(*hierarchies.unified, *own, &found);
  }
  const auto memory = hierarchies.controller.find("memory");
  const auto cpu = hierarchies.controller.find("cpu");
  if (memory != hierarchies.controller.end()) {
    ReadMemoryOfVersion1(memory->second, OwnCgroup(root, "memory").value_or("/"), &found);
  }
  if (cpu != hierarchies.controller.end()) {
    ReadProcessorsOfVersion1(cpu->second, OwnCgroup(root, "cpu").value_or("/"), &found);
  }
  ReadMachine(root, &found);
  if (limits.address_space_bytes > 0) {
    for (MemoryBound* const bound : {&found.limit, &found.lasting_limit}) {
      Narrow(bound, std::max<int64_t>(0, limits.address_space_bytes - kAddressSpaceOverhead),
             "setrlimit(RLIMIT_AS or RLIMIT_DATA), less 1 GiB for stacks and libraries");
    }
  }
  return found;
}

}  // namespace chorale
