// Answers the requests of gRPC's reflection protocol.
#ifndef CHORALE_SERVER_RPC_REFLECTION_H_
#define CHORALE_SERVER_RPC_REFLECTION_H_

#include "grpc/reflection/v1/reflection.pb.h"

namespace chorale {

// The packages of the protocol that the server supports. Their messages are the same; clients that
// are older than the first use the second.
inline constexpr const char* kReflectionPackages[] = {"grpc.reflection.v1",
                                                      "grpc.reflection.v1alpha"};

// The response to a request: descriptors of the files that this program contains, or an
// ErrorResponse. Thread-safe.
grpc::reflection::v1::ServerReflectionResponse AnswerReflection(
    const grpc::reflection::v1::ServerReflectionRequest& request);

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_REFLECTION_H_
