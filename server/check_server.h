// Asks a server for its health: what --check does.
#ifndef CHORALE_SERVER_CHECK_SERVER_H_
#define CHORALE_SERVER_CHECK_SERVER_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/server_options.h"

namespace chorale {

// Ok if the server that listens there says by gRPC's health service that it is ready. An address of
// all interfaces stands for loopback. Otherwise the message says why not. The server's certificate
// is not verified, because its name is hardly that of the loopback address: the question tells
// nothing, and a wrong answer harms nobody else.
absl::Status CheckServer(const ListenTarget& listen, absl::Duration timeout);

}  // namespace chorale

#endif  // CHORALE_SERVER_CHECK_SERVER_H_
