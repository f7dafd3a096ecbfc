// A counted reference to gRPC's call object.
#ifndef CHORALE_SERVER_RPC_CALL_REFERENCE_H_
#define CHORALE_SERVER_RPC_CALL_REFERENCE_H_

#include <grpc/grpc.h>
#include <grpc/status.h>

#include <utility>

namespace chorale {

// Lets any thread cancel a call at any time: gRPC frees the call only after the last reference is
// released. (CallbackServerContext::TryCancel uses the context, which gRPC may destroy at any time
// after OnDone, on another thread.)
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

  // gRPC calls the reactor's OnCancel, and pending reads, writes and the final status fail; the
  // client gets `code` and `message`, also when it reads nothing. Callbacks may run on this thread.
  // No-op if gRPC is done with the call.
  void Cancel(grpc_status_code code, const char* message) const {
    grpc_call_cancel_with_status(call_, code, message, nullptr);
  }

 private:
  grpc_call* call_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_CALL_REFERENCE_H_
