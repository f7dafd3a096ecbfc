// The memory limit of a process without any other limit.
#ifndef CHORALE_SERVER_MEMORY_OWN_MEMORY_LIMIT_H_
#define CHORALE_SERVER_MEMORY_OWN_MEMORY_LIMIT_H_

#include <algorithm>
#include <cstdint>

namespace chorale {

// The sum of the memory in use when the process began to serve, the later growth of its work, and
// kBeside for messages, connections and everything else that is not counted. Therefore a flood of
// connections or frames cannot exhaust the memory of the machine, whatever the flags of the server;
// admitted work can, up to the sizes of the pools. Work counts with its maximum so far, because the
// process keeps the memory of the pools.
//
// Not thread-safe.
class OwnMemoryLimit {
 public:
  static constexpr int64_t kBeside = int64_t{512} << 20;
  // A backend keeps a copy of the weights in its own order.
  static constexpr int64_t kCopiesOfWeights = 2;

  struct Work {
    int64_t pools = 0;    // bytes in use of the pools in host memory
    int64_t passing = 0;  // the maximum that registrations and loads need in addition
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

  // If memory use stays high although connections were closed, it does not belong to connections:
  // it counts as memory of the process.
  void Raise(int64_t resident_bytes) { base_ = std::max(base_, resident_bytes - most_); }

 private:
  int64_t base_;
  const int64_t weights_;
  int64_t most_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_MEMORY_OWN_MEMORY_LIMIT_H_
