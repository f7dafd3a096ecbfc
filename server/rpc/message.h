// Protobuf messages to the bytes that gRPC sends, and back.
//
// The server parses requests by itself: gRPC's own handlers report a message that does not parse
// like the end of a stream, or answer UNIMPLEMENTED, and read a unary request for as long as its
// client likes.
#ifndef CHORALE_SERVER_RPC_MESSAGE_H_
#define CHORALE_SERVER_RPC_MESSAGE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"

namespace chorale {

// InvalidArgument, with the message's type, if the bytes are not one. Frees the bytes, as parsing
// expands them: an empty field of two bytes takes about sixty.
absl::Status ParseMessage(grpc::ByteBuffer* bytes, google::protobuf::Message* message);

// Protobuf logs a line for each string of a message that is not UTF-8, as often as a client likes.
// The call's own line says as much. Once for the process.
void SilenceParser();

grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message);

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_MESSAGE_H_
