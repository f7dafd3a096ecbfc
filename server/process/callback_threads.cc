#include "server/process/callback_threads.h"

#include <grpc/grpc.h>
#include <grpc/support/time.h>

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace chorale {
namespace {

// As many as gRPC has on the largest machines.
constexpr int kThreads = 16;

// How often a thread that has nothing to do sees whether it is to stop, unless an event wakes it.
// gRPC's own threads wait with a limit, too.
constexpr int64_t kLookMilliseconds = 200;

thread_local bool is_one_of_callback_threads = false;

// Wakes the threads that wait for an event. gRPC has no function for it, but the watch of a channel
// ends at its deadline with an event.
class Waking : private grpc_completion_queue_functor {
 public:
  // Adds an event for each thread, and for as many of gRPC's own, which may take them as well.
  explicit Waking(grpc::CompletionQueue* queue)
      : grpc_completion_queue_functor{&Run, 0, 0, nullptr} {
    grpc_channel* const channel =
        grpc_lame_client_channel_create("none", GRPC_STATUS_UNAVAILABLE, "there is no server");
    for (int i = 0; i < kEvents; ++i) {
      grpc_channel_watch_connectivity_state(channel, GRPC_CHANNEL_TRANSIENT_FAILURE,
                                            gpr_now(GPR_CLOCK_MONOTONIC), queue->cq(),
                                            static_cast<grpc_completion_queue_functor*>(this));
    }
    grpc_channel_destroy(channel);
  }

  // Call this when the threads have ended. Returns when gRPC's own have taken the other events.
  void Finish() {
    MutexLock lock(&mutex_);
    threads_ended_ = true;
    changed_.NotifyAll();
    while (taken_ < kEvents) changed_.Wait(&mutex_);
  }

 private:
  static constexpr int kEvents = 2 * kThreads;

  // A thread of gRPC waits until the others have ended, because it would come back for the next
  // event.
  static void Run(grpc_completion_queue_functor* self, int /*success*/) {
    auto* const waking = static_cast<Waking*>(self);
    MutexLock lock(&waking->mutex_);
    while (!is_one_of_callback_threads && !waking->threads_ended_) {
      waking->changed_.Wait(&waking->mutex_);
    }
    ++waking->taken_;
    waking->changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  bool threads_ended_ ABSL_GUARDED_BY(mutex_) = false;
  int taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

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
  Waking waking(queue_);
  for (std::thread& thread : threads_) thread.join();
  waking.Finish();
  ReleaseQueue(queue_);
}

void CallbackThreads::Run() {
  is_one_of_callback_threads = true;
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
