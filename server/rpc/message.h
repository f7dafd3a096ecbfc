// Converts Protobuf messages to the bytes that gRPC sends, and back.
//
// The server parses requests itself, because gRPC's own handlers report an invalid message like the
// end of a stream, or return UNIMPLEMENTED, and allow a client unlimited time to send a unary
// request.
#ifndef CHORALE_SERVER_RPC_MESSAGE_H_
#define CHORALE_SERVER_RPC_MESSAGE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"

namespace chorale {

// InvalidArgument, with the type of the message, if the bytes are invalid. Frees the bytes, because
// parsing expands them: an empty field of two bytes needs about sixty bytes.
absl::Status ParseMessage(grpc::ByteBuffer* bytes, google::protobuf::Message* message);

// Protobuf logs a line for each string of a message that is not UTF-8, without a limit. The line of
// the call contains the same information. Call once per process.
void SilenceParser();

grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message);

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_MESSAGE_H_
