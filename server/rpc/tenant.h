// Whose contexts a call may see.
#ifndef CHORALE_SERVER_RPC_TENANT_H_
#define CHORALE_SERVER_RPC_TENANT_H_

#include <grpcpp/server_context.h>

#include <string>

namespace chorale {

// The only place that decides on the tenant of a call. There is one tenant for now. Later it comes
// from a verified credential (the peer identity of a client certificate), never from a header: a
// client can write any header it likes.
inline std::string TenantOf(const grpc::CallbackServerContext& /*context*/) { return "default"; }

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_TENANT_H_
