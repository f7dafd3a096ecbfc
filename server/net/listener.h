// Accepts the connections to the gRPC port, and tracks them until they end.
#ifndef CHORALE_SERVER_NET_LISTENER_H_
#define CHORALE_SERVER_NET_LISTENER_H_

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "server/net/traffic.h"

namespace chorale {

struct ConnectionLimits {
  int64_t total = 4096;             // at a time
  int64_t per_peer = 1024;          // per client (see PeerAddress::client)
  int64_t message_bytes = 4 << 20;  // the largest message (see TrafficAllowance)
};

// The reason why a connection is refused. A refused connection is accepted and closed immediately,
// so that its client receives the end of the connection and does not wait.
enum class Refusal { kTotal, kPerPeer, kNoDescriptor };

// "max_connections", "max_connections_per_peer" or "no_file_descriptor".
const char* NameOf(Refusal refusal);

// The traffic to consider: since the last mark, or since the connection was made.
enum class BusySince { kMark, kBeginning };

// Accepts connections on its own thread. A connection is handed on, and the listener keeps a
// duplicate of its descriptor. With the duplicate it can close the connection, and it detects when
// the owner shuts the connection down, which gRPC does before it closes a connection.
//
// If the process has no free file descriptors, connections are refused until descriptors are free:
// the listener keeps a spare descriptor for that.
//
// Thread-safe.
class Listener {
 public:
  // Called on the listener's thread; they must not call the listener.
  struct Handlers {
    // The connection has TCP_NODELAY and does not block. `peer` is its PeerAddress::client.
    std::function<void(FileDescriptor connection, const std::string& peer)> accepted;
    std::function<void(Refusal reason)> refused;
    std::function<void(const absl::Status&)> failed;  // no connection will be accepted from now on
  };

  // `sockets` listen, and do not block.
  Listener(const Clock* clock, std::vector<FileDescriptor> sockets, ConnectionLimits limits,
           Handlers handlers);
  ~Listener();  // as StopAccepting
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // While accepting is paused, connections wait in the kernel; after the pause has begun, one more
  // may be accepted. It is not paused at first.
  void PauseAccepting(bool pause);
  // Closes the listening sockets. When this returns, `accepted` is no longer called.
  void StopAccepting();

  int64_t connections() const;

  // Sends the end of the stream on all connections. Data that was written before still arrives.
  //
  // gRPC's Shutdown returns CANCELLED to calls that arrive until their client has received the
  // shutdown, and a client must not retry those. A client whose connection has ended gets
  // UNAVAILABLE for them.
  void EndWriting();
  // Waits until clients have acknowledged all data, and returns false if some have not done so by
  // `deadline`. Call it before gRPC shuts connections down: if a client sends anything to a
  // connection that was shut down for reading, such as a window update, the kernel resets the
  // connection and drops the data that the client has not acknowledged.
  bool WaitUntilDelivered(absl::Time deadline) const;

  // Adds a message to the TrafficAllowance of the connection with this PeerAddress::endpoint.
  // Called for each message of each call.
  void AllowMessage(const std::string& endpoint);
  // Called once a second: closes the connections that have exceeded their TrafficAllowance since
  // the last call, and returns their number. Sets a mark for BusySince.
  int64_t EndFloods();
  // Closes the connections that have received most: the smallest set that has received half of all
  // bytes. Returns their number.
  int64_t EndBusiest(BusySince since);

 private:
  struct Connection {
    FileDescriptor descriptor;
    std::string peer;                     // PeerAddress::client
    std::optional<std::string> endpoint;  // PeerAddress::endpoint
    int64_t marked_bytes = 0;             // bytes received before the last mark
  };
  struct Allowance {
    int descriptor = -1;  // of its connection
    TrafficAllowance bytes;
  };
  struct RefusalCount {
    int64_t since_logged = 0;
    absl::Time logged = absl::InfinitePast();
  };

  void Run();
  // True when the thread must end.
  bool TakeOrders();
  bool IsPaused() const;
  void Watch(int fd, uint32_t events);
  void AcceptWaiting(int socket);
  // Accepts and closes one connection with the spare descriptor.
  void RefuseWithSpare(int socket);
  void Admit(FileDescriptor accepted, const sockaddr_storage& address);
  bool HasExceededAllowance(const Connection& connection, int64_t received);
  bool TryAdd(Connection connection, Refusal* why);
  void Refuse(Refusal reason);
  void Fail(int error);
  void Forget(int descriptor);
  bool IsAllDelivered() const;
  void Wake() const;

  const Clock* const clock_;
  const ConnectionLimits limits_;
  const Handlers handlers_;
  const FileDescriptor epoll_;
  const FileDescriptor wake_;  // an eventfd

  // The thread's own.
  std::vector<FileDescriptor> sockets_;
  FileDescriptor spare_;
  bool watches_sockets_ = false;
  RefusalCount refusals_[3];  // by Refusal

  mutable Mutex mutex_;
  CondVar stopped_;
  bool pause_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool end_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<int, Connection> connections_ ABSL_GUARDED_BY(mutex_);  // by the duplicate
  absl::flat_hash_map<std::string, int64_t> per_peer_ ABSL_GUARDED_BY(mutex_);

  // Separate from mutex_, which is held for a system call per connection.
  Mutex allowances_mutex_;
  absl::flat_hash_map<std::string, Allowance> allowances_  // by endpoint
      ABSL_GUARDED_BY(allowances_mutex_);

  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_NET_LISTENER_H_
