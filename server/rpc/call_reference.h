// A hold on gRPC's side of a call.
#ifndef CHORALE_SERVER_RPC_CALL_REFERENCE_H_
#define CHORALE_SERVER_RPC_CALL_REFERENCE_H_

#include <grpc/grpc.h>
#include <grpc/status.h>

#include <utility>

namespace chorale {

// Lets any thread cancel a call without a thought for how far it has come: gRPC frees it only after
// the last reference is gone. (CallbackServerContext::TryCancel goes through the context, which is
// gone with the call's OnDone, and that may come at any time on another thread.)
//
// Thread-compatible.
class CallReference {
 public:
  // REQUIRES: the reactor's OnDone has not returned.
  explicit CallReference(grpc_call* call) : call_(call) { grpc_call_ref(call_); }
  CallReference(CallReference&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  CallReference& operator=(CallReference&&) = delete;
  ~CallReference() {
    if (call_ != nullptr) grpc_call_unref(call_);
  }

  // The reactor hears OnCancel, and what is in flight fails: reads, writes and the last answer.
  // Reactions may run on this very thread. No-op when gRPC is done with the call.
  void Cancel() const {
    grpc_call_cancel_with_status(call_, GRPC_STATUS_CANCELLED, "Cancelled on the server side",
                                 nullptr);
  }

 private:
  grpc_call* call_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_CALL_REFERENCE_H_
