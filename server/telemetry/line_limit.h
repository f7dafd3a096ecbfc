// Limits the number of log lines of a kind.
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

// A client that guesses tokens, or does not speak TLS, can fail thousands of times a second. With
// one line per attempt, these lines would displace all other lines from a rotated log. Therefore
// only the first few lines of a source per second are logged, and one line a second later contains
// the number of the others.
//
// Thread-safe.
class LineLimit {
 public:
  static constexpr int64_t kLinesASecond = 5;  // of one source
  static constexpr size_t kMostSources = 100;  // the other sources of a second count as one source

  // The line with the sum: the event, and its fields for the source and the number.
  struct Sum {
    std::string event;
    std::string source;
    std::string count;
  };

  explicit LineLimit(Sum sum) : sum_(std::move(sum)) {}

  // Whether an event at this time has its own line.
  bool HasLine(const std::string& source, absl::Time now);

  // Logs the sums of the past seconds, one line per source. Call once a second.
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
