// The state that every call has, from its arrival to the reactor's OnDone.
#ifndef CHORALE_SERVER_RPC_LIVE_CALL_H_
#define CHORALE_SERVER_RPC_LIVE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/rpc/call_reference.h"
#include "server/rpc/reactor_registry.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/method.h"
#include "server/telemetry/prometheus_metrics.h"

namespace chorale {

// Every reactor has one. It ensures that the call
//   - finishes exactly once, even if several threads try;
//   - can be cancelled at any time;
//   - is counted and logged exactly once, with its outcome. The log has ids and sizes, never values
//     of rows.
//
// Thread-safe; Done must be the last call.
class LiveCall {
 public:
  // `finish` is the reactor's Finish; it may be called on any thread.
  LiveCall(Method method, grpc::CallbackServerContext* context, ReactorRegistry* registry,
           PrometheusMetrics* metrics, std::function<void(grpc::Status)> finish);
  LiveCall(const LiveCall&) = delete;
  LiveCall& operator=(const LiveCall&) = delete;

  // OK if the server admits the call; otherwise the status to finish it with.
  const absl::Status& admission() const { return admission_; }
  // InfiniteFuture if the client set none.
  absl::Time deadline() const { return deadline_; }

  // Finishes the call; only the first call of this method has an effect. No write may be in flight.
  // From here on the call waits for its client to receive the status.
  void Finish(const absl::Status& status);

  // A reference to cancel the call with. REQUIRES: Done has not returned.
  CallReference reference() const { return CallReference(context_->c_call()); }

  // Mark the time in which a read or a write waits for the client. The watchdog cancels calls that
  // wait too long, so that a stalled client cannot occupy buffers, a response or registration
  // memory forever.
  void BeginClientWait();
  void EndClientWait();
  std::chrono::steady_clock::time_point client_wait_start() const;  // max(): not waiting

  // Adds a field to the call's log line.
  void Note(std::string key, decltype(LogField::value) value);

  // For the reactor's OnDone: counts and logs the call and removes it from the registry.
  void Done();

 private:
  const Method method_;
  grpc::CallbackServerContext* const context_;  // valid until Done
  ReactorRegistry* const registry_;
  PrometheusMetrics* const metrics_;
  const std::function<void(grpc::Status)> finish_;
  const absl::Time deadline_;
  const std::chrono::steady_clock::time_point arrival_;
  absl::Status admission_;  // constant after construction

  std::atomic<std::chrono::steady_clock::time_point> client_wait_start_;

  Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // final status, valid once finished_
  std::vector<LogField> notes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_LIVE_CALL_H_
