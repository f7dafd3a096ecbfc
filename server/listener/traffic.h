// What connections have sent, to find those that keep the server busiest, or busy for nothing.
#ifndef CHORALE_SERVER_LISTENER_TRAFFIC_H_
#define CHORALE_SERVER_LISTENER_TRAFFIC_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace chorale {

// The bytes that a TCP connection has received since it was made; 0 for other sockets.
int64_t ReceivedBytes(int fd);

// The positions of the largest of `bytes`: the fewest that together are half of the sum or more, in
// descending order. None if all are 0.
std::vector<size_t> Busiest(const std::vector<int64_t>& bytes);

// How much a connection may send: the messages of its calls, and little besides. Settings, pings
// and other frames that belong to no call take threads of gRPC's, the more the less pause there is
// between them. Not thread-safe.
class TrafficAllowance {
 public:
  // In messages of the largest size: at first and, when a second ends, at most.
  static constexpr int64_t kFirstMessages = 4;
  static constexpr int64_t kMaxMessages = 64;
  // Besides messages, all the time.
  static constexpr int64_t kBytesASecond = int64_t{1} << 20;

  // `message_bytes`: the largest message.
  explicit TrafficAllowance(int64_t message_bytes);

  // A call has begun, or a message has arrived: another message may follow.
  void AddMessage();
  // Once a second: `received` bytes since the last time. Returns whether it was too much.
  bool IsExceeded(int64_t received);

 private:
  int64_t message_bytes_;  // with what surrounds it
  int64_t bytes_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LISTENER_TRAFFIC_H_
