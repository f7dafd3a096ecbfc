// The reactor of every unary method.
#ifndef CHORALE_SERVER_RPC_UNARY_REACTOR_H_
#define CHORALE_SERVER_RPC_UNARY_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "server/rpc/live_call.h"
#include "server/rpc/service_environment.h"

namespace chorale {

// Finishes when
//   - the server does not admit the call, or the request is malformed: at once;
//   - the engine, or a task on the blocking executor, has produced a result.
// A disconnected client cancels the engine's call, which then ends with CANCELLED.
//
// Keeps itself alive until OnDone; the engine's callback or the task shares ownership. Thread-safe.
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  static std::shared_ptr<UnaryReactor> Start(Method method, const ServiceEnvironment& environment,
                                             grpc::CallbackServerContext* context) {
    auto reactor = std::shared_ptr<UnaryReactor>(new UnaryReactor(method, environment, context));
    reactor->self_ = reactor;
    return reactor;
  }

  LiveCall& live() { return live_; }
  void Finish(const absl::Status& status) { live_.Finish(status); }

  // Sets the engine's call, which is cancelled when this call is.
  void Attach(std::shared_ptr<Call> call) {
    bool cancel;
    {
      MutexLock lock(&mutex_);
      call_ = call;
      cancel = cancelled_;
    }
    if (cancel) call->Cancel();
  }

  bool cancelled() const {
    MutexLock lock(&mutex_);
    return cancelled_;
  }

 private:
  UnaryReactor(Method method, const ServiceEnvironment& environment,
               grpc::CallbackServerContext* context)
      : live_(method, context, environment.registry, environment.metrics,
              [this](grpc::Status status) { ServerUnaryReactor::Finish(std::move(status)); }) {}

  void OnCancel() override {
    std::shared_ptr<Call> call;
    {
      MutexLock lock(&mutex_);
      cancelled_ = true;
      call = call_;
    }
    if (call != nullptr) call->Cancel();
  }

  void OnDone() override {
    live_.Done();
    std::shared_ptr<Call> call;  // may own the callback that owns this
    {
      MutexLock lock(&mutex_);
      call = std::move(call_);
    }
    call.reset();
    const std::shared_ptr<UnaryReactor> last = std::move(self_);  // may delete this on return
  }

  LiveCall live_;
  mutable Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<UnaryReactor> self_;  // set before gRPC knows the reactor, taken in OnDone
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_UNARY_REACTOR_H_
