// The reactor of every method with one request and one response.
#ifndef CHORALE_SERVER_RPC_UNARY_REACTOR_H_
#define CHORALE_SERVER_RPC_UNARY_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "engine/api/call.h"
#include "server/rpc/reactor.h"

namespace chorale {

// Finishes when
//   - the server does not admit the call, or the request is malformed: at once;
//   - the client disconnects or stalls before it has sent the request;
//   - the engine, or a task on the blocking executor, has produced a result.
// A disconnected client cancels the engine's call, which then ends with CANCELLED.
//
// Thread-safe.
class UnaryReactor final : public Reactor {
 public:
  // Receives the request. If it returns an error, the call finishes with it; otherwise the handler
  // finishes the call later.
  using Handler = std::function<absl::Status(const std::shared_ptr<UnaryReactor>& reactor,
                                             grpc::ByteBuffer* request)>;

  UnaryReactor(Method method, const ServiceEnvironment& environment,
               grpc::CallbackServerContext* context, Handler handler)
      : Reactor(method, environment, context), handler_(std::move(handler)) {}

  // Sets the engine's call, which is cancelled when this call is.
  void Attach(std::shared_ptr<Call> call);

  bool cancelled() const;

 private:
  void Received(grpc::ByteBuffer* bytes) override;
  void ReceivedAll() override;
  void Cancelled() override;
  void Ended() override;

  const Handler handler_;
  mutable Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_UNARY_REACTOR_H_
