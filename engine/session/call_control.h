// What a caller and the queue can tell a request in flight.
#ifndef CHORALE_ENGINE_SESSION_CALL_CONTROL_H_
#define CHORALE_ENGINE_SESSION_CALL_CONTROL_H_

#include <atomic>
#include <cstdint>

namespace chorale {

// Thread-safe; shared by the caller's Call and the session, so that either may go first.
struct CallControl {
  // Set by the caller, read by the engine thread once per tick.
  std::atomic<bool> cancelled{false};
  // Set when another client's request took its place in the queue; means nothing once admitted.
  std::atomic<bool> displaced{false};
  std::atomic<int64_t> acknowledged{0};  // values
  // Set by the engine thread when the caller was told how the call ended.
  std::atomic<bool> ended{false};
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_CALL_CONTROL_H_
