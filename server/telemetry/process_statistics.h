// Statistics of the process from the operating system.
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

// Nothing if /proc does not exist.
std::optional<ProcessStatistics> ReadProcessStatistics();

// Resident memory of the process, cheaper than the above; 0 if /proc does not exist.
int64_t ResidentBytes();

// The memory of the C library's allocator.
struct AllocatorBytes {
  int64_t used = 0;  // in use by the program; untouched parts are not resident
  int64_t free = 0;  // free, kept for later
};
AllocatorBytes ReadAllocatorBytes();

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_PROCESS_STATISTICS_H_
