// More threads with which gRPC reads connections and runs callbacks.
#ifndef CHORALE_SERVER_LIFECYCLE_CALLBACK_THREADS_H_
#define CHORALE_SERVER_LIFECYCLE_CALLBACK_THREADS_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <thread>
#include <vector>

namespace chorale {

// On Linux gRPC reads the connections of callback services, and runs their callbacks, with half as
// many threads as there are processors, two at least, in all of a process. One of them stays with a
// connection as long as there is something to read: two clients that send small frames without a
// pause can take both, and no callback runs any more. With more threads it is the operating system
// that divides the processors among connections, and it is fair.
//
// Threads that only read would not do: callbacks stay in the queue of gRPC's own.
//
// Thread contract: one thread owns it.
class CallbackThreads {
 public:
  CallbackThreads();
  ~CallbackThreads();
  CallbackThreads(const CallbackThreads&) = delete;
  CallbackThreads& operator=(const CallbackThreads&) = delete;

 private:
  void Run();

  grpc::CompletionQueue* const queue_;  // a reference to gRPC's, which all servers share
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_CALLBACK_THREADS_H_
