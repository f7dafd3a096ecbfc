// A gRPC call in flight, which a deadline or a Cancellation can abort.
#ifndef CHORALE_CLIENT_CPP_CALL_H_
#define CHORALE_CLIENT_CPP_CALL_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/cpp/cancellation.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/status.h"

namespace chorale::client {

// The metadata key for the id of the context of a call. A proxy in front of several servers routes
// the call to the server that has the context.
inline constexpr char kContextMetadata[] = "chorale-context";

// When a call ends, and the timeout that the error of a call beyond it names.
struct Deadline {
  static Deadline After(absl::Duration timeout) {
    return {Clock::Real()->Now() + timeout, timeout};
  }

  absl::Time at;  // of Clock::Real()
  absl::Duration timeout;
};

// Returns the time `from_now` as a deadline for gRPC, which adds the duration to its monotonic
// clock. It would convert a time of day by the current difference of both clocks, which is another
// one if the clock was set since the time was read.
gpr_timespec GrpcDeadline(absl::Duration from_now);

// Operations are started on queue() one at a time, and each is followed by Wait(), so that tags are
// not needed. Thread-compatible.
class Call {
 public:
  // `context_id` is the id of the context of the call; empty if there is none. `cancellation` may
  // be null.
  Call(absl::string_view context_id, const Deadline& deadline, const Cancellation* cancellation);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  grpc::ClientContext* context() { return &context_; }
  grpc::CompletionQueue* queue() { return &queue_; }
  static void* tag() { return nullptr; }

  // Waits for the operation in flight; returns whether it succeeded.
  bool Wait();

  // Converts the status of the call to the status for users of the client.
  absl::Status Result(const grpc::Status& status) const;

 private:
  const absl::Duration timeout_;
  const Cancellation* const cancellation_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CALL_H_
