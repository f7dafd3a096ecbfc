// Measures the bytes that connections send, to find connections that keep the server busiest, or
// busy without calls.
#ifndef CHORALE_SERVER_NET_TRAFFIC_H_
#define CHORALE_SERVER_NET_TRAFFIC_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace chorale {

// The bytes that a TCP connection has received since it was made; 0 for other sockets.
int64_t ReceivedBytes(int fd);

// The positions of the largest entries of `bytes`: the smallest set whose sum is at least half of
// the total, in descending order. None if all are 0.
std::vector<size_t> Busiest(const std::vector<int64_t>& bytes);

// The number of bytes that a connection may send: the messages of its calls, and little in
// addition. Settings, pings and other frames that belong to no call occupy threads of gRPC, and the
// shorter the pauses between them, the more. Not thread-safe.
class TrafficAllowance {
 public:
  // In messages of the maximum size: initially and, at the end of a second, at most.
  static constexpr int64_t kFirstMessages = 4;
  static constexpr int64_t kMaxMessages = 64;
  // In addition to messages, at any time.
  static constexpr int64_t kBytesASecond = int64_t{1} << 20;

  // `message_bytes`: the maximum size of a message.
  explicit TrafficAllowance(int64_t message_bytes);

  // A call has begun, or a message has arrived: another message may follow.
  void AddMessage();
  // Called once a second: `received` bytes since the last call. Returns whether they exceed the
  // allowance.
  bool IsExceeded(int64_t received);

 private:
  int64_t message_bytes_;  // including framing
  int64_t bytes_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_NET_TRAFFIC_H_
