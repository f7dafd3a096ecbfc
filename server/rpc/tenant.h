// The tenant of a call.
#ifndef CHORALE_SERVER_RPC_TENANT_H_
#define CHORALE_SERVER_RPC_TENANT_H_

#include <grpcpp/server_context.h>

#include <string>

namespace chorale {

// Decides whose contexts a call may see; nothing else does. There is one tenant for now. A future
// version must use a verified credential (the peer identity of a client certificate), never a
// header: clients can send any header.
inline std::string TenantOf(const grpc::CallbackServerContext& /*context*/) { return "default"; }

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_TENANT_H_
