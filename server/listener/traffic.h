// What connections have sent, to find those that keep the server busiest.
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

}  // namespace chorale

#endif  // CHORALE_SERVER_LISTENER_TRAFFIC_H_
