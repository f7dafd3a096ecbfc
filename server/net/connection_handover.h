// Hands connections to gRPC, including connections whose client never pauses.
#ifndef CHORALE_SERVER_NET_CONNECTION_HANDOVER_H_
#define CHORALE_SERVER_NET_CONNECTION_HANDOVER_H_

#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/fair_queue.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/periodic_task.h"

namespace chorale {

// The thread that gives a connection to gRPC reads it until there is no more data, and holds a lock
// of gRPC's acceptor meanwhile. Therefore a client that sends small frames from its first byte on,
// without a pause, would prevent the acceptance of all other connections. Here each of several
// threads has its own acceptor, and a connection that occupies an acceptor for longer than
// `kPatience` is closed: a well-behaved client waits for the server's settings before it sends a
// call. Peers take turns, and a single peer has at most half of the threads.
//
// Thread-safe, once it has started.
class ConnectionHandover {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  using CredentialsMaker = std::function<std::shared_ptr<grpc::ServerCredentials>()>;

  // REQUIRES: the server is not built yet, and is destroyed before this object. Credentials are
  // created for each acceptor, because credentials report a changed certificate only to the first
  // acceptor that requests it.
  ConnectionHandover(const Clock* clock, grpc::ServerBuilder* builder,
                     const CredentialsMaker& make_credentials);
  ~ConnectionHandover();  // as Stop
  ConnectionHandover(const ConnectionHandover&) = delete;
  ConnectionHandover& operator=(const ConnectionHandover&) = delete;

  // REQUIRES: the server is built. `listening` is a socket that accepts the connections.
  void Start(int listening);
  // Returns immediately. After Stop the connection is closed. `peer` is the peer whose turn it
  // uses.
  void HandOver(FileDescriptor connection, const std::string& peer);
  // Closes the waiting connections, and ends the connections that are being handed over. gRPC's
  // server must be shut down after this, because its shutdown waits for the locks of the acceptors.
  void Stop();

 private:
  struct Waiting {
    FileDescriptor connection;
    std::string peer;
  };
  // A connection that is being handed over: a duplicate of its descriptor, if any, and the time at
  // which it is closed.
  struct Current {
    FileDescriptor duplicate;
    absl::Time deadline;
  };

  void Work(size_t thread, int listening);
  // The next connection, once there is a connection whose peer may use another thread; an invalid
  // descriptor when all threads are to stop.
  Waiting Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndHeldUp();

  const Clock* const clock_;
  std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials_;  // gRPC does not keep them
  // gRPC's; one for each thread.
  std::vector<std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>> acceptors_;

  Mutex mutex_;
  CondVar work_;  // a connection waits, or all threads are to stop
  FairQueue<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, size_t> threads_of_ ABSL_GUARDED_BY(mutex_);  // by peer
  std::vector<Current> current_ ABSL_GUARDED_BY(mutex_);                         // by thread
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
  std::unique_ptr<PeriodicTask> end_held_up_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_NET_CONNECTION_HANDOVER_H_
