// How many lines of one kind are logged.
#ifndef CHORALE_SERVER_TELEMETRY_LINE_LIMIT_H_
#define CHORALE_SERVER_TELEMETRY_LINE_LIMIT_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// Whoever tries tokens, or speaks no TLS, can do so thousands of times a second. With a line for
// each attempt, they would push all other lines out of a log that is rotated. So the first few of a
// source in a second have lines of their own, and one line a second later says how many more there
// were.
//
// Thread-safe.
class LineLimit {
 public:
  static constexpr int64_t kLinesASecond = 5;  // of one source
  static constexpr size_t kMostSources = 100;  // the others of a second count as one

  // The line with the sum: the event, and its fields for the source and the number.
  struct Sum {
    std::string event;
    std::string source;
    std::string count;
  };

  explicit LineLimit(Sum sum) : sum_(std::move(sum)) {}

  // Whether what happened now has a line of its own. `now` is monotonic.
  bool HasLine(const std::string& source, absl::Time now);

  // Logs the sums of the seconds that are over, a line for each source. Call once a second.
  void LogSums(absl::Time now);

 private:
  struct Second {
    absl::Time begin;
    int64_t count = 0;
  };

  const Sum sum_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, Second> by_source_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_LINE_LIMIT_H_
