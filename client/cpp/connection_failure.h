// Errors for connections that cannot be made.
#ifndef CHORALE_CLIENT_CPP_CONNECTION_FAILURE_H_
#define CHORALE_CLIENT_CPP_CONNECTION_FAILURE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cpp/client.h"

namespace chorale::client {

// Unavailable: no server at `address`, for the reason `why`, and through which proxy it was asked.
absl::Status NoServer(const std::string& address, absl::string_view why);

// Converts gRPC's message for a failed connection to `address` to an error: Unavailable if a later
// attempt may succeed; Unauthenticated if the TLS handshake failed and InvalidArgument if the
// certificates are not PEM, where waiting does not help.
absl::Status ConnectionFailure(const std::string& address, const ClientOptions& options,
                               absl::string_view grpc_message);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CONNECTION_FAILURE_H_
