// The signals to a request in flight, from its caller and from the queue.
#ifndef CHORALE_ENGINE_SESSION_CALL_CONTROL_H_
#define CHORALE_ENGINE_SESSION_CALL_CONTROL_H_

#include <atomic>
#include <cstdint>

namespace chorale {

// Thread-safe; shared by the caller's Call and the session, so that either may be destroyed first.
struct CallControl {
  // Set by the caller, read by the engine thread once per tick.
  std::atomic<bool> cancelled{false};
  // Set when another client's request has taken the queue slot of this request. Ignored after
  // admission.
  std::atomic<bool> displaced{false};
  std::atomic<int64_t> acknowledged{0};  // values
  // Set by the engine thread when it reports the end of the call to the caller.
  std::atomic<bool> ended{false};
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_CALL_CONTROL_H_
