// The limit of memory of a process that nothing else limits.
#ifndef CHORALE_SERVER_LIFECYCLE_OWN_MEMORY_LIMIT_H_
#define CHORALE_SERVER_LIFECYCLE_OWN_MEMORY_LIMIT_H_

#include <algorithm>
#include <cstdint>

namespace chorale {

// What the process had when it began to serve, what its own work has come to hold since, and
// kBeside for messages, connections and all else that is not counted. So whoever runs the server,
// and with whatever flags, a flood of connections or frames cannot take the machine; work that is
// admitted can, up to the sizes of the pools. Work counts with the most that it has held, as the
// memory of the pools stays with the process.
//
// Not thread-safe.
class OwnMemoryLimit {
 public:
  static constexpr int64_t kBeside = int64_t{512} << 20;
  // A backend keeps weights in an order of its own, made from what was read.
  static constexpr int64_t kCopiesOfWeights = 2;

  struct Work {
    int64_t pools = 0;    // bytes of the pools in the host's memory that are in use
    int64_t passing = 0;  // what registrations and loads take beside them, at most
    int64_t weights = 0;  // of the models
  };

  // `resident_bytes`: of the process now.
  OwnMemoryLimit(int64_t resident_bytes, const Work& now)
      : base_(std::max<int64_t>(0, resident_bytes - now.pools)), weights_(now.weights) {}

  // The limit now.
  int64_t Next(const Work& now) {
    most_ = std::max(most_, now.pools + now.passing +
                                kCopiesOfWeights * std::max<int64_t>(0, now.weights - weights_));
    return base_ + most_ + kBeside;
  }

  // What is still held when connections were ended for a while is not theirs: it counts as the
  // process's own.
  void Raise(int64_t resident_bytes) { base_ = std::max(base_, resident_bytes - most_); }

 private:
  int64_t base_;
  const int64_t weights_;
  int64_t most_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_OWN_MEMORY_LIMIT_H_
