// The proxy that gRPC takes from the environment.
#ifndef CHORALE_CLIENT_CPP_HTTP_PROXY_H_
#define CHORALE_CLIENT_CPP_HTTP_PROXY_H_

#include <optional>
#include <string>

namespace chorale::client {

struct HttpProxy {
  std::string variable;  // of the environment
  std::string url;       // without a user's name and password
};

// The proxy through which gRPC connects to `address`, by its rules: grpc_proxy, else https_proxy,
// else http_proxy, unless the host ends like an entry of no_grpc_proxy, else of no_proxy. Loopback
// is never behind a proxy. Call while no thread changes the environment.
std::optional<HttpProxy> ProxyFor(const std::string& address);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_HTTP_PROXY_H_
