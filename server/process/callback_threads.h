// Additional threads with which gRPC reads connections and runs callbacks.
#ifndef CHORALE_SERVER_PROCESS_CALLBACK_THREADS_H_
#define CHORALE_SERVER_PROCESS_CALLBACK_THREADS_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <thread>
#include <vector>

namespace chorale {

// On Linux, gRPC reads the connections of callback services, and runs their callbacks, with half as
// many threads as processors, but at least two per process. A thread stays with a connection while
// there is data to read: two clients that send small frames without a pause can occupy both
// threads, and no callback runs. With more threads, the operating system divides the processors
// among connections, and it is fair.
//
// Threads that only read would not suffice, because callbacks stay in gRPC's own queue.
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

#endif  // CHORALE_SERVER_PROCESS_CALLBACK_THREADS_H_
