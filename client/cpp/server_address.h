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
  std::string address;  // for gRPC: HOST:PORT, unix:PATH, or another form of gRPC
  AddressScheme scheme = AddressScheme::kNone;
};

// Parses HOST:PORT, [IPV6]:PORT, unix:PATH, a URL with a scheme above and without a path, and other
// forms of gRPC ("dns:", "ipv4:", "xds:", ...). The forms for a single host are converted to
// HOST:PORT. https:// without a port means port 443. InvalidArgument, with the expected forms, for
// other text, such as a host without a port, for which gRPC would use port 443.
absl::StatusOr<ServerAddress> ParseServerAddress(absl::string_view text);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_SERVER_ADDRESS_H_
