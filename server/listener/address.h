// Addresses to listen on, and the addresses of peers, as text.
#ifndef CHORALE_SERVER_LISTENER_ADDRESS_H_
#define CHORALE_SERVER_LISTENER_ADDRESS_H_

#include <sys/socket.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

// Where to listen: a path, or a host and a port.
struct Address {
  std::string path;  // of a Unix socket; empty: host and port count
  std::string host;  // a name or a number; an IPv6 address is without its brackets
  int port = 0;      // 0: any free port
};

// "HOST:PORT", "[IPV6]:PORT" or "unix:PATH". InvalidArgument names the text and what it must be: a
// host is required, so that no server listens on all interfaces by mistake.
absl::StatusOr<Address> ParseAddress(const std::string& text);

// Whom the connections of one client have in common: an IPv4 address, the /64 network of an IPv6
// address, since a host has all addresses of one, or "unix".
std::string HostOfPeer(const sockaddr_storage& peer);

// Whose connection it is, among all that there are at a time: the address and the port, the same
// for an IPv4 address and the IPv6 address that stands for it. None of a Unix socket. The text is
// for comparisons.
std::optional<std::string> EndpointOfPeer(const sockaddr_storage& peer);
// Of what gRPC calls a peer: "ipv4:127.0.0.1:50000", "ipv6:%5B::1%5D:50000" or "unix:...".
std::optional<std::string> EndpointOfPeer(absl::string_view peer);

}  // namespace chorale

#endif  // CHORALE_SERVER_LISTENER_ADDRESS_H_
