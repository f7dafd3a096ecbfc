// Whose share of the engine a call uses.
#ifndef CHORALE_SERVER_RPC_CLIENT_SHARE_H_
#define CHORALE_SERVER_RPC_CLIENT_SHARE_H_

#include "absl/strings/string_view.h"
#include "engine/request.h"
#include "server/security/caller.h"

namespace chorale {

// That of the caller's tenant, with its weight, where callers are authenticated. Else that of the
// host that it comes from (PeerAddress::client), of weight 1; all local sockets together are one
// host, and behind a proxy all callers are. `peer` is grpc::ServerContextBase::peer().
ClientShare ShareOf(const Caller& caller, absl::string_view peer);

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_CLIENT_SHARE_H_
