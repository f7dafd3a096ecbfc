// Describes the server to a caller.
#ifndef CHORALE_SERVER_RPC_SERVER_INFO_H_
#define CHORALE_SERVER_RPC_SERVER_INFO_H_

#include "chorale/v1/chorale.pb.h"
#include "server/rpc/service_environment.h"
#include "server/security/caller.h"

namespace chorale {

// The response of GetServerInfo, with the limits that are in force now. REQUIRES: the engine is
// open. Thread-safe.
v1::ServerInfo DescribeServer(const ServiceEnvironment& environment, const TenantQuotas& quotas);

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_SERVER_INFO_H_
