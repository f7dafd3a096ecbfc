// Determines the resources that the process may use on its machine.
#ifndef CHORALE_SERVER_MEMORY_AVAILABLE_RESOURCES_H_
#define CHORALE_SERVER_MEMORY_AVAILABLE_RESOURCES_H_

#include <cstdint>
#include <string>

namespace chorale {

// The smallest bound of a kind, and its source as text for the log.
struct MemoryBound {
  int64_t bytes = 0;
  std::string source;  // empty: no bound
  bool known() const { return !source.empty(); }
};

struct ProcessorBound {
  double processors = 0;  // a quota may be a fraction
  std::string source;
};

struct AvailableResources {
  // The enforced limits: beyond them the kernel kills the process, or rejects its allocations.
  // Limits of cgroups, less the memory in use by other processes of the same cgroup, and the limits
  // of setrlimit().
  MemoryBound limit;
  // The same without the memory in use by others, which they may release.
  MemoryBound lasting_limit;
  // The limit of the innermost cgroups, regardless of who uses it: the memory of this process
  // should stay below it. Unknown if no cgroup has a limit below the machine's memory.
  MemoryBound cgroup;
  // The free memory of the machine, including memory that is easily reclaimed.
  MemoryBound free;
  // The total memory of the machine.
  MemoryBound machine;
  ProcessorBound processors;

  // The smaller one of `limit` and `free`.
  const MemoryBound& memory() const;
  // The resources as if no memory were in use.
  AvailableResources WithoutOthers() const;
  // The number of threads that can compute at the same time: at least one; a fraction is rounded
  // up.
  int threads() const;
};

// The limits of the process that do not come from files.
struct ProcessLimits {
  int scheduling_affinity = 0;      // processors of its affinity; 0: unknown
  int64_t address_space_bytes = 0;  // the smaller of RLIMIT_AS and RLIMIT_DATA; 0: none
};
ProcessLimits ReadProcessLimits();

// Reads `root`/proc and the cgroup file systems (versions 1 and 2, through all cgroups from the
// process's own to the outermost visible one) that `root`/proc/self/mountinfo names. A file that
// does not exist, cannot be read, or contains "max" sets no bound.
AvailableResources FindResources(const ProcessLimits& limits = ReadProcessLimits(),
                                 const std::string& root = "");

}  // namespace chorale

#endif  // CHORALE_SERVER_MEMORY_AVAILABLE_RESOURCES_H_
