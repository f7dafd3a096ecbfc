// The address of the other end of a connection.
#ifndef CHORALE_SERVER_NET_PEER_ADDRESS_H_
#define CHORALE_SERVER_NET_PEER_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace chorale {

class PeerAddress {
 public:
  explicit PeerAddress(const sockaddr_storage& address);
  // `peer` is grpc::ServerContextBase::peer(): "ipv4:127.0.0.1:50000", "ipv6:%5B::1%5D:50000" or
  // "unix:...".
  explicit PeerAddress(absl::string_view peer);

  // "192.0.2.7", also for an IPv4-mapped IPv6 address, or "2001:db8::1". For other peers their
  // kind: "unix".
  std::string host() const;
  // The part of the address that all connections of a client share: host(), but the /64 network of
  // an IPv6 address, because a host may have all addresses of its network.
  std::string client() const;
  // Distinct for all simultaneous connections: address and port. Empty for a peer without an IP
  // address. The text is for comparisons only.
  std::optional<std::string> endpoint() const;

 private:
  std::optional<in6_addr> ip_;  // IPv4 as ::ffff:192.0.2.7
  in_port_t port_ = 0;          // in network byte order
  std::string kind_;            // without ip_
};

}  // namespace chorale

#endif  // CHORALE_SERVER_NET_PEER_ADDRESS_H_
