#include "server/process/callback_threads.h"

#include <grpc/grpc.h>
#include <grpc/support/time.h>

#include <cstdint>

namespace chorale {
namespace {

// As many as gRPC has on the largest machines.
constexpr int kThreads = 16;

// How often a thread that has nothing to do sees whether it is to stop: gRPC offers no way to wake
// it. gRPC's own threads wait with a limit, too.
constexpr int64_t kLookMilliseconds = 200;

// gRPC has one queue for the callbacks of all servers of a process, and does not hand it out: its
// functions are private. An explicit instantiation may name them all the same.
grpc::CompletionQueue* ReferToQueue();
void ReleaseQueue(grpc::CompletionQueue* queue);

template <auto kRefer, auto kRelease>
struct PrivateFunctions {
  friend grpc::CompletionQueue* ReferToQueue() { return kRefer(); }
  friend void ReleaseQueue(grpc::CompletionQueue* queue) { kRelease(queue); }
};
template struct PrivateFunctions<&grpc::CompletionQueue::CallbackAlternativeCQ,
                                 &grpc::CompletionQueue::ReleaseCallbackAlternativeCQ>;

}  // namespace

CallbackThreads::CallbackThreads() : queue_(ReferToQueue()) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
}

CallbackThreads::~CallbackThreads() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
  ReleaseQueue(queue_);
}

void CallbackThreads::Run() {
  while (!stopping_) {
    // Not CompletionQueue::AsyncNext: what it does with an event's tag is for other queues.
    const gpr_timespec until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                            gpr_time_from_millis(kLookMilliseconds, GPR_TIMESPAN));
    const grpc_event event = grpc_completion_queue_next(queue_->cq(), until, /*reserved=*/nullptr);
    if (event.type != GRPC_OP_COMPLETE) continue;
    auto* const callback = static_cast<grpc_completion_queue_functor*>(event.tag);
    callback->functor_run(callback, event.success);
  }
}

}  // namespace chorale
