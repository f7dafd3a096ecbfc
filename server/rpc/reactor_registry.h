// The set of live calls: shutdown waits for them or ends them, the client watchdog checks them.
#ifndef CHORALE_SERVER_RPC_REACTOR_REGISTRY_H_
#define CHORALE_SERVER_RPC_REACTOR_REGISTRY_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace chorale {

class LiveCall;

// grpc::Server::Shutdown waits forever for a reactor that does not finish, so the registry contains
// every admitted call from its arrival to OnDone. It does not contain rejected calls, which finish
// immediately, so that clients that retry cannot delay a drain.
//
// Thread-safe.
class ReactorRegistry {
 public:
  // `clock` is not owned.
  explicit ReactorRegistry(const Clock* clock) : clock_(clock) {}
  ReactorRegistry(const ReactorRegistry&) = delete;
  ReactorRegistry& operator=(const ReactorRegistry&) = delete;

  // Legal transitions: starting -> open -> closed, starting -> closed.
  void Open();
  void Close();

  // Admits and adds a call: OK. Unavailable while the server starts or drains; the call must then
  // finish with that status.
  absl::Status Add(LiveCall* call);
  // No-op for a call that was not admitted.
  void Remove(LiveCall* call);

  // Ends all calls with this status, which contains the reason. Their work is cancelled.
  void EndAll(const absl::Status& status);
  // Cancels the calls that have waited for their client since before `time`; returns their number.
  // Their log lines contain stalled=true.
  int64_t CancelClientWaitsStartedBefore(absl::Time time);

  // Returns false if there are live calls at `deadline`.
  bool WaitUntilEmpty(absl::Time deadline);
  int64_t live() const;

 private:
  enum class State { kStarting, kOpen, kClosed };

  // Cancels the calls that satisfy `predicate`, with `status`; returns their number.
  int64_t CancelIf(absl::FunctionRef<bool(LiveCall&)> predicate, const absl::Status& status);

  const Clock* const clock_;
  mutable Mutex mutex_;
  CondVar emptied_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kStarting;
  absl::flat_hash_set<LiveCall*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_REACTOR_REGISTRY_H_
