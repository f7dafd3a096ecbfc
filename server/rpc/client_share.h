// Determines the client to whose share of the engine a call belongs.
#ifndef CHORALE_SERVER_RPC_CLIENT_SHARE_H_
#define CHORALE_SERVER_RPC_CLIENT_SHARE_H_

#include "engine/api/call_context.h"
#include "server/net/peer_address.h"
#include "server/security/caller.h"

namespace chorale {

// If callers are authenticated, the client is the tenant of the caller, with its weight. Otherwise
// it is the host of the connection (PeerAddress::client), with weight 1; all local sockets together
// are one host, and behind a proxy all callers are one host.
ClientShare ShareOf(const Caller& caller, const PeerAddress& peer);

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_CLIENT_SHARE_H_
