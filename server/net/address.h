// Addresses to listen on, as text.
#ifndef CHORALE_SERVER_NET_ADDRESS_H_
#define CHORALE_SERVER_NET_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace chorale {

// The address to listen on: a path, or a host and a port.
struct Address {
  std::string path;  // of a Unix socket; empty: host and port apply
  std::string host;  // a name or a number; an IPv6 address without its brackets
  int port = 0;      // 0: any free port
};

// "HOST:PORT", "[IPV6]:PORT" or "unix:PATH". InvalidArgument names the text and the valid format. A
// host is required, so that no server listens on all interfaces by mistake.
absl::StatusOr<Address> ParseAddress(const std::string& text);

}  // namespace chorale

#endif  // CHORALE_SERVER_NET_ADDRESS_H_
