#include "server/net/traffic.h"

#include <linux/tcp.h>  // the C library's tcp_info lacks tcpi_bytes_received
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <numeric>

namespace chorale {
namespace {

// The headers of a call.
constexpr int64_t kHeaderBytes = 64 << 10;

}  // namespace

int64_t ReceivedBytes(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return static_cast<int64_t>(info.tcpi_bytes_received);
}

std::vector<size_t> Busiest(const std::vector<int64_t>& bytes) {
  std::vector<size_t> positions(bytes.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::sort(positions.begin(), positions.end(),
            [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  const int64_t all = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  int64_t sum = 0;
  size_t count = 0;
  for (; 2 * sum < all; ++count) sum += bytes[positions[count]];
  positions.resize(count);
  return positions;
}

// A message comes in frames and records of TLS, among acknowledgements of what the client receives.
TrafficAllowance::TrafficAllowance(int64_t message_bytes)
    : message_bytes_(message_bytes + message_bytes / 4 + kHeaderBytes),
      bytes_(kFirstMessages * message_bytes_) {}

void TrafficAllowance::AddMessage() { bytes_ += message_bytes_; }

bool TrafficAllowance::IsExceeded(int64_t received) {
  bytes_ -= received;
  if (bytes_ < 0) return true;
  // What time alone adds stays below what there was at first.
  const int64_t first = kFirstMessages * message_bytes_;
  if (bytes_ < first) bytes_ = std::min(bytes_ + kBytesASecond, first);
  bytes_ = std::min(bytes_, kMaxMessages * message_bytes_);
  return false;
}
}  // namespace chorale
