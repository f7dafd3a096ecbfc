#include "server/rpc/reflection_service.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "chorale/v1/chorale.grpc.pb.h"  // with it gRPC's handlers, whose header has moved since
#include "server/codec/status_mapping.h"
#include "server/rpc/message.h"
#include "server/rpc/reflection.h"

namespace chorale {
namespace {

// A request contains a name and a host.
constexpr size_t kMaxRequestBytes = 16 << 10;

// Reads a request, writes its response, and so on until the client has sent everything. Deletes
// itself in OnDone.
class ReflectionReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  ReflectionReactor() { StartRead(&request_); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::OK);
    } else if (const absl::Status status = Answer(); status.ok()) {
      StartWrite(&response_);
    } else {
      Finish(ToGrpcStatus(status));
    }
  }

  absl::Status Answer() {
    if (request_.Length() > kMaxRequestBytes) {
      return MakeError(ErrorReason::kMessageTooLarge,
                       absl::StrCat("the message has ", request_.Length(), " bytes; the limit is ",
                                    kMaxRequestBytes));
    }
    grpc::reflection::v1::ServerReflectionRequest request;
    RETURN_IF_ERROR(ParseMessage(&request_, &request));
    response_ = SerializeMessage(AnswerReflection(request));
    return absl::OkStatus();
  }

  void OnWriteDone(bool ok) override {
    response_.Clear();
    if (ok) {
      StartRead(&request_);
    } else {  // the client has disconnected
      Finish(grpc::Status::CANCELLED);
    }
  }

  void OnDone() override { delete this; }

  grpc::ByteBuffer request_;   // gRPC's while a read is in flight
  grpc::ByteBuffer response_;  // gRPC's while a write is in flight
};

}  // namespace

ReflectionService::ReflectionService() {
  for (const char* const package : kReflectionPackages) {
    const auto index = static_cast<int>(names_.size());
    names_.push_back(absl::StrCat("/", package, ".ServerReflection/ServerReflectionInfo"));
    AddMethod(new grpc::internal::RpcServiceMethod(
        names_.back().c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodRawCallback(
        index, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
                   [](grpc::CallbackServerContext*) { return new ReflectionReactor(); }));
  }
}

}  // namespace chorale
