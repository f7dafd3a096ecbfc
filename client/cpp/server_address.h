// The address of a server as users write it.
#ifndef CHORALE_CLIENT_CPP_SERVER_ADDRESS_H_
#define CHORALE_CLIENT_CPP_SERVER_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale::client {

enum class AddressScheme {
  kNone,
  kPlain,  // http://, grpc://, tcp://
  kTls,    // https://, grpcs://
};

struct ServerAddress {
  std::string address;  // for gRPC: HOST:PORT, unix:PATH, or another of its forms
  AddressScheme scheme = AddressScheme::kNone;
};

// Takes HOST:PORT, [IPV6]:PORT, unix:PATH, a URL of one of the schemes above without a path, and
// gRPC's other forms ("dns:", "ipv4:", "xds:", ...), of which those for a single host become
// HOST:PORT. https:// without a port means 443. InvalidArgument, with what is expected, for all
// else: a host without a port above all, where gRPC would try 443.
absl::StatusOr<ServerAddress> ParseServerAddress(absl::string_view text);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_SERVER_ADDRESS_H_
