#include "server/rpc/message.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace chorale {
namespace {

// Of the blocks that a message is written into.
constexpr int kBlockBytes = 256 << 10;

}  // namespace

absl::Status ParseMessage(grpc::ByteBuffer* bytes, google::protobuf::Message* message) {
  bool parsed;
  {
    grpc::ProtoBufferReader reader(bytes);
    parsed = reader.status().ok() && message->ParseFromZeroCopyStream(&reader);
  }
  bytes->Clear();
  if (parsed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the message is not a valid ", message->GetTypeName(),
                   ": it cannot be parsed, or contains a string that is not valid UTF-8"));
}

void SilenceParser() {
#if GOOGLE_PROTOBUF_VERSION < 4022000  // later ones log through Abseil
  google::protobuf::SetLogHandler(nullptr);
#endif
}

grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message) {
  const auto size = static_cast<int>(message.ByteSizeLong());
  grpc::ByteBuffer bytes;
  if (size == 0) {  // an empty buffer would not be a message
    const grpc::Slice nothing;
    return {&nothing, 1};
  }
  grpc::ProtoBufferWriter writer(&bytes, std::min(size, kBlockBytes), size);
  (void)message.SerializeToZeroCopyStream(&writer);  // fails only without required fields
  return bytes;
}

}  // namespace chorale
