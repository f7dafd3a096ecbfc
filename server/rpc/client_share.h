// Whose share of the engine a call uses.
#ifndef CHORALE_SERVER_RPC_CLIENT_SHARE_H_
#define CHORALE_SERVER_RPC_CLIENT_SHARE_H_

#include "engine/request.h"
#include "server/net/peer_address.h"
#include "server/security/caller.h"

namespace chorale {

// That of the caller's tenant, with its weight, where callers are authenticated. Else that of the
// host that it comes from (PeerAddress::client), of weight 1; all local sockets together are one
// host, and behind a proxy all callers are.
ClientShare ShareOf(const Caller& caller, const PeerAddress& peer);

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_CLIENT_SHARE_H_
