// Whose share of the engine a call uses.
#ifndef CHORALE_SERVER_RPC_CLIENT_SHARE_H_
#define CHORALE_SERVER_RPC_CLIENT_SHARE_H_

#include "absl/strings/string_view.h"
#include "engine/request.h"
#include "server/security/caller.h"

namespace chorale {

// That of the caller's tenant, with its weight, where callers are authenticated. Else that of the
// host that it comes from, of weight 1: the address without the port, of IPv6 the /64, because
// one host may have all addresses of that; all local sockets together are one host. `peer` is
// grpc::ServerContextBase::peer(): "ipv4:127.0.0.1:50000", "ipv6:%5B::1%5D:50000" or "unix:...".
// Behind a proxy all calls that are not authenticated come from one host.
ClientShare ShareOf(const Caller& caller, absl::string_view peer);

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_CLIENT_SHARE_H_
