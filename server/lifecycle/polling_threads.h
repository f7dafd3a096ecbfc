// More threads with which gRPC reads connections.
#ifndef CHORALE_SERVER_LIFECYCLE_POLLING_THREADS_H_
#define CHORALE_SERVER_LIFECYCLE_POLLING_THREADS_H_

#include <grpcpp/server_builder.h>

#include <memory>
#include <thread>
#include <vector>

namespace chorale {

// gRPC reads connections with as many threads as there are processors, and one of them stays with a
// connection as long as there is something to read: two clients that send small frames without a
// pause hold up all others of a server with two processors. With more threads it is the operating
// system that divides the processors among connections, and it is fair.
//
// Thread contract: one thread owns it.
class PollingThreads {
 public:
  // REQUIRES: the server is not built yet.
  explicit PollingThreads(grpc::ServerBuilder* builder);
  // REQUIRES: the server that was built, if any, is destroyed.
  ~PollingThreads();
  PollingThreads(const PollingThreads&) = delete;
  PollingThreads& operator=(const PollingThreads&) = delete;

  // REQUIRES: the server is built.
  void Start();

 private:
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;  // stays empty
  std::vector<std::thread> threads_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_POLLING_THREADS_H_
