// Checks the health of a server, for --check.
#ifndef CHORALE_SERVER_CHECK_SERVER_H_
#define CHORALE_SERVER_CHECK_SERVER_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/options/server_options.h"

namespace chorale {

// Ok if gRPC's health service of the server at this address reports that it is ready; otherwise the
// message contains the reason. An address of all interfaces stands for loopback. The certificate of
// the server is not verified, because it rarely contains the name of the loopback address: the
// request contains no secret, and only the operator reads the response.
absl::Status CheckServer(const ListenTarget& listen, absl::Duration timeout);

}  // namespace chorale

#endif  // CHORALE_SERVER_CHECK_SERVER_H_
