// Keeps the process below its limit of memory, in spite of what clients do.
#ifndef CHORALE_SERVER_LIFECYCLE_MEMORY_WATCH_H_
#define CHORALE_SERVER_LIFECYCLE_MEMORY_WATCH_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// The largest share of the limit that may be planned for: pools and budgets of known size. The rest
// is for what messages take while they are received and parsed.
inline constexpr double kPlannedMemoryShare = 0.8;

struct MemoryLimit {
  int64_t bytes = 0;  // of the resident memory of the process; 0: none
  // Whether it is set from outside (--memory_limit_mib, the cgroup), so that a process that cannot
  // get below it has to end.
  bool set = true;

  // What begins the pressure. Others should not come to see the limit that is set exceeded.
  int64_t high() const { return set ? bytes / 10 * 9 : bytes; }
};

// What to do about the memory that the process has. Not thread-safe.
class MemoryPressure {
 public:
  // What is sent now is not what takes the memory, if that is still high after so long: it was sent
  // before, and is held.
  static constexpr absl::Duration kLately = absl::Seconds(2);
  // Pressure that lasts so long will not go away.
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  struct Advice {
    bool high = false;         // accept no connections
    bool trim = false;         // give freed memory back
    bool end_busiest = false;  // end the connections that send most
    bool lately = true;        // of those: in the last second; false: since they were made
    bool give_up = false;      // nothing else helps: see Handlers
  };

  // `resident_bytes`: of the process, at the time `now`, which never goes back. The limit may
  // change from call to call.
  Advice Next(int64_t resident_bytes, const MemoryLimit& limit, absl::Time now);

 private:
  bool high_ = false;
  absl::Time high_since_;
  absl::Time trimmed_ = absl::InfinitePast();
};

// Looks at the process's resident memory 20 times a second, on a thread of its own, and takes
// MemoryPressure's advice. Thread-safe.
class MemoryWatch {
 public:
  // Called on the watch's thread.
  struct Handlers {
    std::function<MemoryLimit()> limit;
    std::function<void(bool pause)> pause_accepting;
    std::function<void()> each_second;
    // Returns how many connections it has ended. `lately`: those busiest since the last mark.
    std::function<int64_t(bool lately)> end_busiest;
    // Memory has stayed high. Of a limit that is set: only a new process helps; called at most
    // once.
    std::function<void()> give_up;
    // Of the process's own: the limit is too low for what it does.
    std::function<void(int64_t resident_bytes)> raise_limit;
  };

  explicit MemoryWatch(Handlers handlers);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

 private:
  void Run();
  // Returns false when the watch is to end.
  bool Wait();

  const Handlers handlers_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_MEMORY_WATCH_H_
