// What a caller is told when no connection comes about.
#ifndef CHORALE_CLIENT_CPP_CONNECTION_FAILURE_H_
#define CHORALE_CLIENT_CPP_CONNECTION_FAILURE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cpp/client.h"

namespace chorale::client {

// The error for what gRPC says of a channel to `address` that has failed to connect. Unavailable
// when it may yet connect; Unauthenticated when client and server do not agree on TLS, and
// InvalidArgument when the certificates given are none: waiting helps with neither.
absl::Status ConnectionFailure(const std::string& address, const ClientOptions& options,
                               absl::string_view grpc_message);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CONNECTION_FAILURE_H_
