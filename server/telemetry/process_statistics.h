// What the operating system says of this process.
#ifndef CHORALE_SERVER_TELEMETRY_PROCESS_STATISTICS_H_
#define CHORALE_SERVER_TELEMETRY_PROCESS_STATISTICS_H_

#include <cstdint>
#include <optional>

namespace chorale {

struct ProcessStatistics {
  double cpu_seconds = 0;  // user and system
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t threads = 0;
  int64_t open_fds = 0;
  int64_t max_fds = 0;
  double start_time = 0;  // since the Unix epoch, in seconds
};

// Nothing where /proc is not there.
std::optional<ProcessStatistics> ReadProcessStatistics();

// Resident memory of the process, cheaper than the above; 0 where /proc is not there.
int64_t ResidentBytes();

// What the C library's allocator has got from the system.
struct AllocatorBytes {
  int64_t used = 0;  // by the program; what it has not touched yet is not resident
  int64_t free = 0;  // kept for later
};
AllocatorBytes ReadAllocatorBytes();

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_PROCESS_STATISTICS_H_
