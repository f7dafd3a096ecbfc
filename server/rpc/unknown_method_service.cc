#include "server/rpc/unknown_method_service.h"

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "server/codec/status_mapping.h"

namespace chorale {
namespace {

class UnknownMethodReactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit UnknownMethodReactor(const grpc::Status& status) { Finish(status); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* UnknownMethodService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  return new UnknownMethodReactor(ToGrpcStatus(
      MakeError(ErrorReason::kUnknownMethod,
                absl::StrCat("the server has no method ", QuoteName(context->method())))));
}

}  // namespace chorale
