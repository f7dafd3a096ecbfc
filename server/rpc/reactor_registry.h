// All calls that live: what shutdown waits for and cancels, and what the client watchdog looks at.
#ifndef CHORALE_SERVER_RPC_REACTOR_REGISTRY_H_
#define CHORALE_SERVER_RPC_REACTOR_REGISTRY_H_

#include <chrono>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

class LiveCall;

// A reactor that never finishes makes grpc::Server::Shutdown wait for ever, so every call that is
// taken is in here from its arrival until gRPC is done with it. A call that is refused finishes at
// once; it stays out, so that clients that try again cannot hold up a drain.
//
// Thread-safe.
class ReactorRegistry {
 public:
  ReactorRegistry() = default;
  ReactorRegistry(const ReactorRegistry&) = delete;
  ReactorRegistry& operator=(const ReactorRegistry&) = delete;

  // Legal transitions: starting -> open -> closed, starting -> closed.
  void Open();
  void Close();

  // Says whether the server takes a call, and enters it if so: OK, or Unavailable while it starts
  // and while it drains, which the call must then finish with.
  absl::Status Add(LiveCall* call);
  // No-op for a call that was not taken.
  void Remove(LiveCall* call);

  void CancelAll();
  // Cancels the calls that have waited for their client since before `time`; returns how many.
  int64_t CancelWaitsBegunBefore(std::chrono::steady_clock::time_point time);

  // False when calls still live at `deadline`.
  bool WaitUntilEmpty(absl::Time deadline);
  int64_t live() const;

 private:
  enum class State { kStarting, kOpen, kClosed };

  // Cancels the calls that `chosen` is true for; returns how many.
  int64_t CancelThose(absl::FunctionRef<bool(const LiveCall&)> chosen);

  mutable Mutex mutex_;
  CondVar emptied_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kStarting;
  absl::flat_hash_set<LiveCall*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_REACTOR_REGISTRY_H_
