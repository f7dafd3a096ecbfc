// One gRPC call in flight, which a deadline or a Cancellation can end early.
#ifndef CHORALE_CLIENT_CPP_CALL_H_
#define CHORALE_CLIENT_CPP_CALL_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/cancellation.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/status.h"

namespace chorale::client {

// The metadata that has the id of the context that a call is about. Where several servers share the
// contexts, a proxy sends the call to the one that holds it.
inline constexpr char kContextMetadata[] = "chorale-context";

// Operations are started on queue() one at a time, each followed by Wait(), so tags have no
// meaning. Used by one thread.
class Call {
 public:
  // `context_id` is that of the context that the call is about; empty: of none. `cancellation` may
  // be null.
  Call(absl::string_view context_id, absl::Time deadline, const Cancellation* cancellation);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  grpc::ClientContext* context() { return &context_; }
  grpc::CompletionQueue* queue() { return &queue_; }
  static void* tag() { return nullptr; }

  // Waits for the operation in flight; returns whether it succeeded.
  bool Wait();

  // The status of the call, as the client's users see it.
  absl::Status Result(const grpc::Status& status) const;

 private:
  const absl::Time start_;
  const absl::Time deadline_;
  const Cancellation* const cancellation_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CALL_H_
