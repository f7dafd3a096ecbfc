// The state that every call has, from its arrival to the reactor's OnDone.
#ifndef CHORALE_SERVER_RPC_LIVE_CALL_H_
#define CHORALE_SERVER_RPC_LIVE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "engine/api/call_context.h"
#include "engine/api/call_report.h"
#include "server/net/peer_address.h"
#include "server/rpc/call_reference.h"
#include "server/rpc/service_environment.h"
#include "server/security/caller.h"
#include "server/security/quotas.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/method.h"
#include "server/tracing/call_record.h"

namespace chorale {

// Every reactor has one. It ensures that the call
//   - is admitted only if its caller is known, may make it, and has not used up a quota;
//   - finishes exactly once, even if several threads try;
//   - can be cancelled at any time;
//   - is counted, logged and traced exactly once, with its outcome. The log has ids and sizes, and
//     never values of rows.
//
// Thread-safe; Done must be the last call.
class LiveCall {
 public:
  // `finish` is the reactor's Finish; it may be called on any thread.
  LiveCall(Method method, grpc::CallbackServerContext* context,
           const ServiceEnvironment& environment, std::function<void(grpc::Status)> finish);
  LiveCall(const LiveCall&) = delete;
  LiveCall& operator=(const LiveCall&) = delete;

  // OK if the server admits the call; otherwise the status with which to finish it.
  const absl::Status& admission() const { return admission_; }
  // The other end of the connection.
  const PeerAddress& peer() const { return peer_; }
  // REQUIRES, of the next three: the call is admitted.
  const Caller& caller() const { return caller_; }
  // The client to whose share of the server the call belongs.
  const std::string& client() const { return share_.client; }
  // The call as the engine receives it, with a request for `context`, which the log line names.
  // `owner` owns this LiveCall: the engine holds it until it has reported the end of the call.
  CallContext MakeCallContext(std::shared_ptr<const void> owner, const std::string& context);
  // Takes a * b values from the tenant's quota of values per second. They are refunded if the
  // engine rejects the request before it begins to work on it. Call at most once.
  absl::Status TakeValues(int64_t a, int64_t b);

  // Finishes the call; only the first call of this method has an effect. No write may be in flight.
  // From here on the call waits for its client to receive the status.
  void Finish(const absl::Status& status);

  // Records that the server is about to cancel the call, and the reason: this status is the outcome
  // if the call is then found to be cancelled.
  void CutShort(const absl::Status& status);

  // A reference to cancel the call with. REQUIRES: Done has not returned.
  CallReference reference() const { return CallReference(context_->c_call()); }

  // Mark the time in which a read or a write waits for the client. The watchdog cancels calls that
  // wait too long, so that a stalled client cannot occupy buffers, a response or registration
  // memory forever.
  void BeginClientWait();
  void EndClientWait();
  absl::Time client_wait_start() const;  // InfiniteFuture: not waiting

  // The headers are about to be sent without a message. Adds the request id to them.
  void NoteHeaders();
  // Call before a message of a stream is handed to gRPC, which sends the headers before the first
  // message.
  void NoteWrite();
  // Adds a field to the call's log line and its span.
  void Note(std::string key, decltype(LogField::value) value);

  // For the reactor's OnDone: counts and logs the call and removes it from the registry.
  void Done();

 private:
  absl::Status Admit(const ServiceEnvironment& environment);
  void SetReport(const CallReport& report);
  void BeginHeaders() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Method method_;
  grpc::CallbackServerContext* const context_;  // valid until Done
  const PeerAddress peer_;
  ReactorRegistry* const registry_;
  PrometheusMetrics* const metrics_;
  CallTelemetry* const telemetry_;
  const CallIdentity identity_;
  ClientShare share_;  // constant after construction
  const Clock* const clock_;
  AccessControl* const access_;
  const std::function<void(grpc::Status)> finish_;
  const absl::Time deadline_;  // of clock_; InfiniteFuture if the client set none
  const absl::Time arrival_;
  Caller caller_;              // constant after construction
  std::string expired_token_;  // likewise; name of the expired token of a rejected caller
  absl::Status admission_;     // likewise

  std::atomic<int64_t> client_wait_start_;  // Unix nanoseconds of a time of clock_

  Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);     // final status, valid once finished_
  absl::Status cut_short_ ABSL_GUARDED_BY(mutex_);  // OK: the server did not cancel the call
  Quotas::CallSlot slot_ ABSL_GUARDED_BY(mutex_);
  absl::Duration values_taken_ ABSL_GUARDED_BY(mutex_);
  std::vector<LogField> notes_ ABSL_GUARDED_BY(mutex_);
  std::optional<CallReport> report_ ABSL_GUARDED_BY(mutex_);
  bool headers_begun_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Time> write_began_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_LIVE_CALL_H_
