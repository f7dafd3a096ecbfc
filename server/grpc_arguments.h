// The settings of gRPC that follow from the options of the server, and fixed settings.
#ifndef CHORALE_SERVER_GRPC_ARGUMENTS_H_
#define CHORALE_SERVER_GRPC_ARGUMENTS_H_

#include <grpcpp/server_builder.h>

#include "server/options/server_options.h"

namespace chorale {

// Sets the limits of messages, metadata, streams and idle connections, and the keepalive times.
void SetGrpcArguments(const ServerOptions& options, grpc::ServerBuilder* builder);

}  // namespace chorale

#endif  // CHORALE_SERVER_GRPC_ARGUMENTS_H_
