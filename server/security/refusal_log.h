// How many of the lines about callers that nobody knows are logged.
#ifndef CHORALE_SERVER_SECURITY_REFUSAL_LOG_H_
#define CHORALE_SERVER_SECURITY_REFUSAL_LOG_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// Who tries tokens can make thousands of calls a second, and with a line or two for each would push
// all other lines out of a log that is rotated. So the first few of a peer in a second have their
// lines, and the others are one line together, a second later.
//
// Thread-safe.
class RefusalLog {
 public:
  static constexpr int64_t kCallsASecond = 5;  // of one peer
  static constexpr size_t kMostPeers = 100;    // the others of a second count as one

  // Whether a refused call of `peer` has its own lines. `now` is monotonic.
  bool HasLines(const std::string& peer, absl::Time now);

  // Logs the seconds that are over: "refusals_summed", a line for each peer. Call once a second.
  void LogSums(absl::Time now);

 private:
  struct Second {
    absl::Time begin;
    int64_t calls = 0;
  };

  Mutex mutex_;
  absl::flat_hash_map<std::string, Second> by_peer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_REFUSAL_LOG_H_
