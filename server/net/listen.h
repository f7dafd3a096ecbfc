// Opens sockets that listen.
#ifndef CHORALE_SERVER_NET_LISTEN_H_
#define CHORALE_SERVER_NET_LISTEN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace chorale {

// Returns sockets that listen on all addresses for which `address` (see ParseAddress) stands, at
// least one; several if a name has an IPv4 and an IPv6 address. They do not block. The wildcards
// 0.0.0.0 and [::] mean all addresses of both kinds. The file of a Unix socket is replaced if no
// process listens there.
//
// InvalidArgument if the text is malformed, Unavailable if it cannot listen there, for example
// because another process does; both name `address`. May query a name server.
absl::StatusOr<std::vector<FileDescriptor>> ListenOn(const std::string& address);

// The port of a socket; 0 for a Unix socket.
int LocalPort(const FileDescriptor& socket);

}  // namespace chorale

#endif  // CHORALE_SERVER_NET_LISTEN_H_
