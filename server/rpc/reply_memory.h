// Limits the memory of responses that clients have not read.
#ifndef CHORALE_SERVER_RPC_REPLY_MEMORY_H_
#define CHORALE_SERVER_RPC_REPLY_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace chorale {

// A response stays in memory until gRPC has written it, which waits for a client that does not
// read. A client may use as much memory as is left: a single client gets half, and each of n
// clients less than 1/(n + 1), so that memory is always free for a client without unread responses.
//
// Thread-safe.
class ReplyMemory {
 public:
  explicit ReplyMemory(int64_t limit) : limit_(limit) {}

  // Returns false and takes nothing if the client would then use more than is left.
  [[nodiscard]] bool TryTake(const std::string& client, int64_t bytes);
  // REQUIRES: the client has taken at least as much.
  void GiveBack(const std::string& client, int64_t bytes);

 private:
  const int64_t limit_;
  Mutex mutex_;
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, int64_t> by_client_ ABSL_GUARDED_BY(mutex_);  // positive
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_REPLY_MEMORY_H_
