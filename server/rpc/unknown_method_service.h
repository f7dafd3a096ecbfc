// Rejects calls of methods that the server does not have.
#ifndef CHORALE_SERVER_RPC_UNKNOWN_METHOD_SERVICE_H_
#define CHORALE_SERVER_RPC_UNKNOWN_METHOD_SERVICE_H_

#include <grpcpp/generic/async_generic_service.h>

namespace chorale {

// Ends each call with UNIMPLEMENTED and the name of the method, without reading its request. gRPC's
// own error for such calls has neither a message nor details. Thread-safe.
class UnknownMethodService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_UNKNOWN_METHOD_SERVICE_H_
