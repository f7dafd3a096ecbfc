// The gRPC service: decodes requests, passes them to the engine and sends the responses.
#ifndef CHORALE_SERVER_RPC_CHORALE_SERVICE_H_
#define CHORALE_SERVER_RPC_CHORALE_SERVICE_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "server/rpc/reactor.h"
#include "server/rpc/service_environment.h"
#include "server/rpc/unary_reactor.h"

namespace chorale {

// The methods of proto/chorale/v1/chorale.proto. Each starts a reactor and returns without
// blocking; reactor.h explains why none is a handler that protoc generated, and the other headers
// describe the life cycles of the reactors.
//
// Thread-safe.
class ChoraleService final : public grpc::Service {
 public:
  // The environment must outlive the service.
  explicit ChoraleService(const ServiceEnvironment* environment);

 private:
  // The action of a unary method on its request; see UnaryReactor::Handler.
  template <typename Request>
  using Handler = absl::Status (*)(const ServiceEnvironment& environment,
                                   const std::shared_ptr<UnaryReactor>& reactor,
                                   const Request& request);

  using ReactorFactory = std::function<std::shared_ptr<Reactor>(grpc::CallbackServerContext*)>;

  void Add(Method method, ReactorFactory make_reactor);
  template <typename Request>
  void AddUnary(Method method, Handler<Request> handler);

  const ServiceEnvironment& environment_;
  std::deque<std::string> names_;  // of the methods added; gRPC keeps pointers
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_CHORALE_SERVICE_H_
