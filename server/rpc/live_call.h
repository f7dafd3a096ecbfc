// One call, from its arrival until gRPC is done with it.
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

// Every reactor has one. It sees to it that the call
//   - finishes exactly once, whoever comes first;
//   - can be cancelled as long as it lives;
//   - is counted and logged, once, with what happened to it. The log has ids and sizes, never a
//     value from a row.
//
// Thread-safe, except that Done comes last.
class LiveCall {
 public:
  // `finish` is the reactor's Finish; it may be called on any thread.
  LiveCall(Method method, grpc::CallbackServerContext* context, ReactorRegistry* registry,
           PrometheusMetrics* metrics, std::function<void(grpc::Status)> finish);
  LiveCall(const LiveCall&) = delete;
  LiveCall& operator=(const LiveCall&) = delete;

  // OK when the server takes the call; else what to finish it with.
  const absl::Status& admission() const { return admission_; }
  // Absolute; InfiniteFuture when the client set none.
  absl::Time deadline() const { return deadline_; }

  // Finishes the call. Only the first one counts. No write may be in flight. From here on the call
  // waits for its client to take the answer.
  void Finish(const absl::Status& status);

  // To cancel the call with. REQUIRES: Done has not returned.
  CallReference reference() const { return CallReference(context_->c_call()); }

  // The call waits for its client, in a read or a write, from Begun to Done. The watchdog cancels
  // calls that have waited for too long: a client that does not read must not hold on to its paths
  // or its answer for ever, nor one that does not write to the memory of its registration.
  void WaitBegun();
  void WaitDone();
  std::chrono::steady_clock::time_point wait_begun() const;  // max() when it does not wait

  // Adds to the call's log line.
  void Note(std::string key, decltype(LogField::value) value);

  // From the reactor's OnDone: counts, logs and leaves the registry.
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

  std::atomic<std::chrono::steady_clock::time_point> wait_begun_;

  Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the one to finish with, once finished_
  std::vector<LogField> notes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_LIVE_CALL_H_
