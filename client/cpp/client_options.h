// Options of a client's connection, and of each of its calls.
#ifndef CHORALE_CLIENT_CPP_CLIENT_OPTIONS_H_
#define CHORALE_CLIENT_CPP_CLIENT_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/cpp/cancellation.h"
#include "client/cpp/retry.h"

namespace chorale::client {

struct TlsOptions {
  std::string root_certificates = {};   // PEM; empty: the system's certificates
  std::string client_certificate = {};  // PEM; empty: no client certificate
  std::string client_key = {};          // PEM: the private key of client_certificate
};

struct ClientOptions {
  // The time that Connect waits for a server that does not accept connections yet.
  absl::Duration connect_timeout = absl::Seconds(5);
  // The timeout of calls that do not set a timeout.
  absl::Duration call_timeout = absl::Minutes(5);
  // The retry policy of idempotent calls, which are all calls except DeleteContext without
  // allow_missing and AppendRows without first_row. A sampling stream is retried only if no block
  // was delivered.
  RetryPolicy retry = {};
  std::optional<TlsOptions> tls = {};  // nullopt: no encryption
  // The bearer token that is sent with each call; empty: no token. Without encryption, the client
  // sends it only to this machine.
  std::string token = {};
};

struct CallOptions {
  absl::Duration timeout = absl::ZeroDuration();  // for all attempts together; 0: call_timeout
  const Cancellation* cancellation = nullptr;     // may be null; must outlive the call
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CLIENT_OPTIONS_H_
