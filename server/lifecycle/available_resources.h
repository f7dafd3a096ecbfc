// What the process may use of its machine.
#ifndef CHORALE_SERVER_LIFECYCLE_AVAILABLE_RESOURCES_H_
#define CHORALE_SERVER_LIFECYCLE_AVAILABLE_RESOURCES_H_

#include <cstdint>
#include <string>

namespace chorale {

// The smallest bound of a kind, and who sets it, in words for the log.
struct MemoryBound {
  int64_t bytes = 0;
  std::string source;  // empty: nobody does
  bool known() const { return !source.empty(); }
};

struct ProcessorBound {
  double processors = 0;  // a quota may be a fraction
  std::string source;
};

struct AvailableResources {
  // What ends or refuses: the kernel kills the process beyond it, or refuses it more. Limits of
  // cgroups, less what others in the same one have taken, and those of setrlimit().
  MemoryBound limit;
  // The same without what others have taken, which they may give back.
  MemoryBound lasting_limit;
  // The limit of the innermost cgroups by itself, whoever uses it: what the memory of this process
  // is to stay below. Unknown where there is none below the machine's memory.
  MemoryBound cgroup;
  // What the machine has left now, without what is easily given back.
  MemoryBound free;
  // All that the machine has.
  MemoryBound machine;
  ProcessorBound processors;

  // The smaller one of `limit` and `free`.
  const MemoryBound& memory() const;
  // As if nobody used anything at the moment.
  AvailableResources WithoutOthers() const;
  // Threads that can compute at the same time: at least one; a fraction counts as a whole.
  int threads() const;
};

// What the process was given apart from files.
struct ProcessLimits {
  int scheduling_affinity = 0;      // processors that it may run on; 0: unknown
  int64_t address_space_bytes = 0;  // the smaller of RLIMIT_AS and RLIMIT_DATA; 0: none
};
ProcessLimits ReadProcessLimits();

// Reads `root`/proc and the cgroup file systems (versions 1 and 2, through all cgroups from the
// process's own to the outermost one that it can see) that `root`/proc/self/mountinfo names. What
// is not there, cannot be read, or says "max" bounds nothing.
AvailableResources FindResources(const ProcessLimits& limits = ReadProcessLimits(),
                                 const std::string& root = "");

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_AVAILABLE_RESOURCES_H_
