// The HTTP proxy that gRPC uses according to the environment.
#ifndef CHORALE_CLIENT_CPP_HTTP_PROXY_H_
#define CHORALE_CLIENT_CPP_HTTP_PROXY_H_

#include <optional>
#include <string>

namespace chorale::client {

struct HttpProxy {
  std::string variable;  // the environment variable
  std::string url;       // without user name and password
};

// Returns the proxy through which gRPC connects to `address`: the value of grpc_proxy, https_proxy
// or http_proxy, whichever is set first in this order. Returns nullopt if none is set, if the host
// is a loopback address, or if it ends with an entry of no_grpc_proxy (of no_proxy if no_grpc_proxy
// is not set). No other thread may change the environment during the call.
std::optional<HttpProxy> ProxyFor(const std::string& address);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_HTTP_PROXY_H_
