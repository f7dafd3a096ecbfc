#include "server/rpc/unary_reactor.h"

#include <utility>

namespace chorale {

void UnaryReactor::Received(grpc::ByteBuffer* bytes) {
  const absl::Status status =
      handler_(std::static_pointer_cast<UnaryReactor>(shared_from_this()), bytes);
  bytes->Clear();
  if (!status.ok()) Finish(status);
}

void UnaryReactor::ReceivedAll() {
  Finish(absl::InvalidArgumentError("the call has no request message"));
}

void UnaryReactor::Attach(std::shared_ptr<Call> call) {
  bool cancel;
  {
    MutexLock lock(&mutex_);
    call_ = call;
    cancel = cancelled_;
  }
  if (cancel) call->Cancel();
}

bool UnaryReactor::cancelled() const {
  MutexLock lock(&mutex_);
  return cancelled_;
}

void UnaryReactor::Cancelled() {
  std::shared_ptr<Call> call;
  {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    call = call_;
  }
  if (call != nullptr) call->Cancel();
}

void UnaryReactor::Ended() {
  std::shared_ptr<Call> call;  // may own the callback that owns this
  {
    MutexLock lock(&mutex_);
    call = std::move(call_);
  }
}

}  // namespace chorale
