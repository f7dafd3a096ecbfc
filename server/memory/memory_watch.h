// Keeps the process below its memory limit, regardless of its clients.
#ifndef CHORALE_SERVER_MEMORY_MEMORY_WATCH_H_
#define CHORALE_SERVER_MEMORY_MEMORY_WATCH_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/periodic_task.h"

namespace chorale {

// The maximum share of the limit for planned memory: pools and budgets of known size. The remaining
// memory is for messages while they are received and parsed.
inline constexpr double kPlannedMemoryShare = 0.8;

struct MemoryLimit {
  int64_t bytes = 0;  // of the resident memory of the process; 0: none
  // Whether the limit is set from outside (--memory_limit_mib, the cgroup), so that a process that
  // stays above it must end.
  bool set = true;

  // The memory use at which the pressure begins. The process should not exceed a limit that is set
  // from outside.
  int64_t high() const { return set ? bytes / 10 * 9 : bytes; }
};

// Decides how to reduce the memory of the process. Not thread-safe.
class MemoryPressure {
 public:
  // If memory use is still high after this time, then the messages of the last second are not the
  // cause: connections hold memory of earlier messages.
  static constexpr absl::Duration kLately = absl::Seconds(2);
  // The time after which the pressure is considered permanent.
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  struct Advice {
    bool high = false;         // accept no connections
    bool trim = false;         // return freed memory to the system
    bool end_busiest = false;  // close the connections that send most
    bool lately = true;        // by their bytes in the last second; false: since they were made
    bool give_up = false;      // nothing else helps: see Handlers
  };

  // `resident_bytes`: the memory of the process at the time `now`, which never decreases. The limit
  // may change from call to call.
  Advice Next(int64_t resident_bytes, const MemoryLimit& limit, absl::Time now);

 private:
  bool high_ = false;
  absl::Time high_since_;
  absl::Time trimmed_ = absl::InfinitePast();
};

// Checks the resident memory of the process 20 times a second, on its own thread, and follows the
// advice of MemoryPressure. Thread-safe.
class MemoryWatch {
 public:
  // Called on the watch's thread.
  struct Handlers {
    std::function<MemoryLimit()> limit;
    std::function<void(bool pause)> pause_accepting;
    std::function<void()> each_second;
    // Returns the number of closed connections. `lately`: the busiest connections since the last
    // mark.
    std::function<int64_t(bool lately)> end_busiest;
    // Memory use stayed high. With a limit that is set from outside, only a restart helps; called
    // at most once.
    std::function<void()> give_up;
    // With the process's own limit: the limit is too low for the work of the process.
    std::function<void(int64_t resident_bytes)> raise_limit;
  };

  MemoryWatch(const Clock* clock, Handlers handlers);

 private:
  void Check();

  const Clock* const clock_;
  const Handlers handlers_;
  // Used by the task only.
  MemoryPressure pressure_;
  absl::Time second_ = absl::InfinitePast();  // when each_second was last called
  absl::Time logged_ = absl::InfinitePast();
  int64_t ended_ = 0;  // connections, since the last line of the log
  bool gave_up_ = false;
  PeriodicTask task_;  // last: it uses all of the above
};

}  // namespace chorale

#endif  // CHORALE_SERVER_MEMORY_MEMORY_WATCH_H_
